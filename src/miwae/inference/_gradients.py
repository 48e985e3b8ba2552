"""Estimators of the gradient of a bound.

A bound depends on the parameters of the proposal in two ways: through the latent samples (the
path) and through the proposal's density at given samples (the score). With `w` the derivative of
the bound in the log-weights (for MIWAE, the normalised weights):

- `standard`: both, as in Burda et al. (2016);
- `path`: the path alone (Roeder et al., 2017): no variance left when the proposal is exact, but
  biased for K > 1;
- `dreg`: the path weighted once more by the normalised weights (Tucker et al., 2019): unbiased,
  and its signal-to-noise ratio grows with K where that of the standard estimator falls.

The three differ for the parameters of the proposal only.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from miwae._shapes import Latents, OneKey, PerRow, PerSample, Rows, Seen
from miwae.errors import SettingsError
from miwae.inference._bounds import BOUNDS
from miwae.inference._weights import log_density, log_weights
from miwae.model import AbstractProposal, Autoencoder

ESTIMATORS = ("standard", "path", "dreg")


class BoundGradient(NamedTuple):
    """The bound of each row and the gradient of their weighted sum."""

    bound: PerRow
    gradient: PyTree  # of the autoencoder's floating-point arrays


def bound_and_gradient(
    autoencoder: Autoencoder,
    x: Rows,
    observed: Seen,
    row_weights: PerRow,
    key: OneKey,
    *,
    n_samples: int,
    objective: str = "miwae",
    estimator: str = "dreg",
    visible: Seen | None = None,
) -> BoundGradient:
    """The bound of each row, and the gradient of `sum(row_weights * bound)`.

    Args:
        autoencoder: what is differentiated, in all its floating-point arrays.
        x: rows; missing cells may hold anything.
        observed: True where a cell was seen.
        row_weights: 1/B for the mean; 0 for rows that only pad a batch.
        key: for the latent samples.
        n_samples: K.
        objective: name of the bound.
        estimator: name of the gradient estimator.
        visible: which of the observed cells the proposal sees; by default all. The bound holds for
            any proposal.

    Raises:
        SettingsError: an unknown name; `dreg` with a stratified proposal, whose score is not a
            function of the path.
    """
    _require_known(objective, estimator)
    parameters, static = eqx.partition(autoencoder, eqx.is_inexact_array)
    shown = observed if visible is None else visible

    def propose(own: PyTree) -> AbstractProposal:
        return eqx.combine(own, static).propose(x, shown)

    def weigh(own: PyTree, proposal: AbstractProposal, z: Latents) -> PerSample:
        model = eqx.combine(own, static)
        log_q, eta = log_density(proposal, z), model.generative.decode(z)
        return log_weights(model, log_q, z, eta, x, observed)

    proposal, pull_proposal = eqx.filter_vjp(propose, parameters)
    if estimator == "dreg" and proposal.stratified:
        raise SettingsError(
            "the doubly reparametrised gradient is not defined for a stratified proposal such as "
            "a mixture: use estimator='standard' or 'path'"
        )
    z, pull_z = eqx.filter_vjp(lambda q: q.sample(key, n_samples), proposal)
    log_w, pull_w = eqx.filter_vjp(weigh, parameters, proposal, z)
    bound, pull_bound = jax.vjp(BOUNDS[objective], log_w)
    (w,) = pull_bound(row_weights)
    direct, score, path = pull_w(w)
    if estimator == "dreg" and objective in ("miwae", "iwae"):
        path = path * jax.nn.softmax(log_w, axis=0)[..., None]
    (towards_proposal,) = pull_z(path)
    if estimator == "standard":
        towards_proposal = _added(towards_proposal, score)
    (through_proposal,) = pull_proposal(towards_proposal)
    return BoundGradient(bound, _added(direct, through_proposal))


def _require_known(objective: str, estimator: str) -> None:
    if estimator not in ESTIMATORS:
        raise SettingsError(f"estimator must be one of {', '.join(ESTIMATORS)}, not {estimator!r}")
    if objective not in BOUNDS:
        raise SettingsError(f"objective must be one of {', '.join(BOUNDS)}, not {objective!r}")


def _added(a: PyTree, b: PyTree) -> PyTree:
    return jax.tree.map(jnp.add, a, b)
