"""The one seam: where the model p, the proposal q and the data x meet."""

from typing import NamedTuple

from miwae._shapes import Eta, Keys, Latents, PerSample, Rows, Seen
from miwae.model import AbstractProposal, Autoencoder


class LatentSamples(NamedTuple):
    """Samples from the proposal, decoded, with their unnormalised log-weights, Eqn. (11)."""

    z: Latents
    eta: Eta
    log_w: PerSample


def log_density(proposal: AbstractProposal, z: Latents) -> PerSample:
    """The `log q(z | x_obs)` that weights divide by, corrected for stratified sampling."""
    return proposal.log_prob(z) - proposal.log_stratum(z.shape[0])


def log_weights(
    autoencoder: Autoencoder, log_q: PerSample, z: Latents, eta: Eta, x: Rows, observed: Seen
) -> PerSample:
    """`log p(x_obs | z) + log p(z) - log q(z | x_obs)`. Only the observed cells of x are read."""
    return autoencoder.log_joint(z, eta, x, observed) - log_q


def draw(
    autoencoder: Autoencoder, x: Rows, observed: Seen, key: Keys, n_samples: int
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
    return weighted(autoencoder, z, log_density(proposal, z), x, observed)


def weighted(
    autoencoder: Autoencoder, z: Latents, log_q: PerSample, x: Rows, observed: Seen
) -> LatentSamples:
    """Latent samples that were drawn with the density `q`, decoded and weighted."""
    eta = autoencoder.generative.decode(z)
    return LatentSamples(z, eta, log_weights(autoencoder, log_q, z, eta, x, observed))
