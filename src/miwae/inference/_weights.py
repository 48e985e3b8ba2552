"""The one seam: where the model p, the proposal q and the data x meet."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Key

from miwae.model import AbstractProposal, Autoencoder


class LatentSamples(NamedTuple):
    """Samples from the proposal, decoded, with their unnormalised log-weights, Eqn. (11)."""

    z: Float[Array, "K B L"]
    eta: Float[Array, "K B P"]
    log_w: Float[Array, "K B"]


def log_density(proposal: AbstractProposal, z: Float[Array, "K B L"]) -> Float[Array, "K B"]:
    """The `log q(z | x_obs)` that weights divide by, corrected for stratified sampling."""
    return proposal.log_prob(z) - proposal.log_stratum(z.shape[0])


def log_weights(
    autoencoder: Autoencoder,
    log_q: Float[Array, "K B"],
    z: Float[Array, "K B L"],
    eta: Float[Array, "K B P"],
    x: Float[Array, "B D"],
    observed: Bool[Array, "B D"],
) -> Float[Array, "K B"]:
    """`log p(x_obs | z) + log p(z) - log q(z | x_obs)`. Only the observed cells of x are read."""
    return autoencoder.log_joint(z, eta, x, observed) - log_q


def draw(
    autoencoder: Autoencoder,
    x: Float[Array, "B D"],
    observed: Bool[Array, "B D"],
    key: Key[Array, "..."],
    n_samples: int,
) -> LatentSamples:
    """Draw latent samples for a batch of rows, decode and weight them.

    Every bound, gradient, imputation, likelihood and diagnostic is a function of what this
    returns. What a caller does not use, the compiler leaves out.

    Args:
        autoencoder: the model and its amortizer.
        x: rows; missing cells may hold anything.
        observed: True where a cell was seen.
        key: one for the batch, or one for each row.
        n_samples: K.
    """
    proposal = autoencoder.propose(x, observed)
    z = proposal.sample(key, n_samples)
    eta = autoencoder.generative.decode(z)
    log_q = log_density(proposal, z)
    return LatentSamples(z, eta, log_weights(autoencoder, log_q, z, eta, x, observed))
