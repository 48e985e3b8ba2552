"""The compiled part of sampling: blocks of latent samples, decoded, weighted and evaluated.

A lane is one block of samples of one row. What goes through the networks together is a group of
lanes: those of a group belong to different rows, or are different blocks of a row. Groups have a
fixed size, and each block of a row has its own random numbers, so that what is drawn for a row, to
the last bit, is independent of the other rows. One program serves all tables of similar size, any
number of rows and any number of samples.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from miwae._compilation import compiled
from miwae._shapes import Count, Latents, PerSample, RowKeys, Seen
from miwae.inference._estimands import Estimand, Given
from miwae.inference._weights import log_density, weighted
from miwae.kernels import bits, fold_in, standard_student_t, student_t_log_prob
from miwae.model import AbstractProposal, Autoencoder

# Samples of a lane: half of them, and their mirror images. It decides which random numbers belong
# to a block, so it is fixed.
BLOCK = 64

# Lanes that go through the networks together, and in one call; fewer of both for very wide rows.
GROUP, CALL = 16, 256
DECODED = 2**23  # decoded parameters or values held at once, in floats

FOUND_DF = 5.0  # degrees of freedom of distributions that were found by adaptation

# Folded into the key of a block, for other random numbers than those of the proposal.
VALUES, CUT, FOUND = 2**31 - 1, 2**31 - 2, 2**31 - 3


class Found(NamedTuple):
    """A distribution of z that was found for some of the rows: `loc + tril eps`, eps Student-t."""

    exists: Bool[np.ndarray, " B"]
    loc: Float[np.ndarray, "B L"]
    tril: Float[np.ndarray, "B L L"]
    inverse: Float[np.ndarray, "B L L"]

    @classmethod
    def nothing(cls, n_rows: int, n_latent: int) -> "Found":
        """For no row."""
        loc = np.zeros((n_rows, n_latent), dtype=np.float32)
        eye = np.tile(np.eye(n_latent, dtype=np.float32), (n_rows, 1, 1))
        return cls(np.zeros(n_rows, dtype=bool), loc, eye, eye.copy())


class Lanes(NamedTuple):
    """Rows, each with the block that is drawn for it."""

    x: Float[Array, "T D"]
    observed: Seen
    held_out: Seen  # observed cells that the proposal does not see, to be predicted
    key: RowKeys
    found: Found
    block: Int[Array, " T"]
    n_counted: Int[Array, " T"]  # samples of the block that count


class Samples(NamedTuple):
    """Latent samples of each lane, their log-weights and values."""

    z: Float[Array, "T K L"]
    log_w: Float[Array, "T K"]
    values: Float[Array, "T K V"]


def lane_counts(autoencoder: Autoencoder, n_values: int) -> tuple[int, int]:
    """Lanes of a group and of a call; they depend on the model and the estimand alone."""
    width = BLOCK * max(autoencoder.generative.observation.n_parameters, n_values)
    group = next((n for n in (GROUP, 8, 4, 2) if n * width <= DECODED), 1)
    calls = (n for n in (CALL, 64, 16) if n >= group and n * width <= DECODED)
    return group, next(calls, group)


@compiled
def draw_lanes(
    autoencoder: Autoencoder, estimand: Estimand, lanes: Lanes, n_lanes: Count
) -> Samples:
    """Draw a block for each of the first `n_lanes` lanes; the others cost nothing."""
    size, _ = lane_counts(autoencoder, estimand.n_values)

    def of_group(i: Count) -> Samples:
        own = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, i * size, size), lanes)
        return _drawn(autoencoder, estimand, own)

    def one_group(i: Count, samples: Samples) -> Samples:
        put = lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, i * size, 0)  # noqa: E731
        return jax.tree.map(put, samples, of_group(i))

    shapes = jax.eval_shape(of_group, jnp.zeros((), dtype=int))
    total = len(lanes.block)
    nothing = jax.tree.map(lambda a: jnp.zeros((total, *a.shape[1:]), a.dtype), shapes)
    return jax.lax.fori_loop(0, -(-n_lanes // size), one_group, nothing)


def _drawn(autoencoder: Autoencoder, estimand: Estimand, lanes: Lanes) -> Samples:
    """One block for each lane; samples that do not count have no weight."""
    key = fold_in(lanes.key, lanes.block)
    proposal = autoencoder.propose(lanes.x, lanes.observed)
    z, log_q = _sampled(proposal, lanes.found, key)
    z, eta, log_w = weighted(autoencoder, z, log_q, lanes.x, lanes.observed)
    given = Given(eta, lanes.x, lanes.observed, lanes.held_out, fold_in(key, VALUES))
    values = estimand.values(autoencoder.generative.observation, given)
    # Of a cut block a random part counts: the mean over the whole block of a stratified proposal
    # is unbiased, and so is that over samples chosen at random, but not that over the first few.
    start = bits(fold_in(key, CUT), (1, len(lanes.block))) % BLOCK
    place = (jnp.arange(BLOCK)[:, None] + start) % BLOCK
    counts = place < lanes.n_counted[None]
    log_w = jnp.where(counts, log_w, -jnp.inf)
    values = jnp.where(counts[..., None], values, 0.0)
    return Samples(*(jnp.swapaxes(a, 0, 1) for a in (z, log_w, values)))


def _sampled(proposal: AbstractProposal, found: Found, key: RowKeys) -> tuple[Latents, PerSample]:
    """A block from the proposal; where something was found for a row, every other sample of that.

    The second half of a block is the mirror image of the first where the proposal is symmetric.
    """
    if proposal.centre is None:
        z = proposal.sample(key, BLOCK)
    else:
        half = proposal.sample(key, BLOCK // 2)
        z = jnp.concatenate([half, 2 * proposal.centre[None] - half])
    if proposal.stratified:
        return z, log_density(proposal, z)
    n_rows, n_latent = found.loc.shape
    df = jnp.full((1, 1, 1), FOUND_DF)
    eps = standard_student_t(fold_in(key, FOUND), df, (n_latent, BLOCK // 2, n_rows))
    eps = jnp.moveaxis(jnp.concatenate([eps, -eps], axis=1), 0, -1)
    other = found.loc[None] + jnp.einsum("blm,kbm->kbl", found.tril, eps)
    every_other = found.exists[None] & (jnp.arange(BLOCK) % 2 == 0)[:, None]
    z = jnp.where(every_other[..., None], other, z)
    inner = jnp.einsum("blm,kbm->kbl", found.inverse, z - found.loc[None])
    log_det = jnp.sum(jnp.log(jnp.diagonal(found.inverse, axis1=-2, axis2=-1)), axis=-1)
    log_found = jnp.sum(student_t_log_prob(inner, df), axis=-1) + log_det[None]
    log_q = proposal.log_prob(z)
    mixed = jnp.logaddexp(log_q, log_found) - math.log(2)
    return z, jnp.where(found.exists[None], mixed, log_q)
