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

import functools
from collections.abc import Sequence
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
    key: OneKey | Sequence[OneKey],
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
        key: for the latent samples. Several keys cut the rows into as many shards of equal size,
            each sampled with its own key, independently of the other shards.
        n_samples: K.
        objective: name of the bound.
        estimator: name of the gradient estimator.
        visible: which of the observed cells the proposal sees; by default all. The bound holds for
            any proposal.

    Raises:
        SettingsError: an unknown name; `dreg` with a stratified proposal, whose score is not a
            function of the path; a number of rows that is not a multiple of the number of keys.
    """
    _require_known(objective, estimator)
    parameters, static = eqx.partition(autoencoder, eqx.is_inexact_array)
    shown = observed if visible is None else visible
    keys = key if isinstance(key, Sequence) else (key,)
    shards = _shards(len(x), len(keys))

    def propose(own: PyTree) -> list[AbstractProposal]:
        proposal = eqx.combine(own, static).propose(x, shown)
        return [proposal.of_rows(rows) for rows in shards]

    proposals, pull_proposals = eqx.filter_vjp(propose, parameters)
    if estimator == "dreg" and proposals[0].stratified:
        raise SettingsError(
            "the doubly reparametrised gradient is not defined for a stratified proposal such as "
            "a mixture: use estimator='standard' or 'path'"
        )

    def of_shard(key: OneKey, rows: slice, proposal: AbstractProposal) -> _ShardGradient:
        shard = (x[rows], observed[rows], row_weights[rows])
        names = (objective, estimator)
        return _of_shard(parameters, static, proposal, key, shard, n_samples, *names)

    bounds, direct, towards = zip(*map(of_shard, keys, shards, proposals), strict=True)
    (through_proposals,) = pull_proposals(list(towards))
    gradient = functools.reduce(_added, (*direct, through_proposals))
    return BoundGradient(jnp.concatenate(bounds), gradient)


def _require_known(objective: str, estimator: str) -> None:
    if estimator not in ESTIMATORS:
        raise SettingsError(f"estimator must be one of {', '.join(ESTIMATORS)}, not {estimator!r}")
    if objective not in BOUNDS:
        raise SettingsError(f"objective must be one of {', '.join(BOUNDS)}, not {objective!r}")


def _shards(n_rows: int, n_shards: int) -> list[slice]:
    size, left = divmod(n_rows, n_shards)
    if left:
        raise SettingsError(f"{n_rows} rows cannot be cut into {n_shards} shards of equal size")
    return [slice(i * size, (i + 1) * size) for i in range(n_shards)]


class _ShardGradient(NamedTuple):
    bound: PerRow
    direct: PyTree  # the gradient with the proposal held fixed
    towards_proposal: AbstractProposal  # the gradient in the arrays of the proposal


def _of_shard(
    parameters: PyTree,
    static: PyTree,
    proposal: AbstractProposal,
    key: OneKey,
    shard: tuple[Rows, Seen, PerRow],
    n_samples: int,
    objective: str,
    estimator: str,
) -> _ShardGradient:
    x, observed, row_weights = shard

    def weigh(own: PyTree, proposal: AbstractProposal, z: Latents) -> PerSample:
        model = eqx.combine(own, static)
        log_q, eta = log_density(proposal, z), model.generative.decode(z)
        return log_weights(model, log_q, z, eta, x, observed)

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
    return _ShardGradient(bound, direct, towards_proposal)


def _added(a: PyTree, b: PyTree) -> PyTree:
    return jax.tree.map(jnp.add, a, b)
