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
from jaxtyping import Array, Bool, Float, Int, UInt32

from miwae._compilation import compiled
from miwae._numerics import features_first
from miwae._shapes import Count, Latents, PerSample, RowKeys, Seen
from miwae.inference._estimands import Estimand, Given
from miwae.inference._weights import log_density, weighted
from miwae.kernels import fold_in, standard_student_t, student_t_log_prob
from miwae.model import AbstractProposal, Autoencoder

# Samples of a lane: half of them, and their mirror images. It decides which random numbers belong
# to a block, so it is fixed; a power of two.
BLOCK = 32

# Lanes that go through the networks together, and in one call; fewer of both for very wide rows.
GROUP, CALL = 32, 512
DECODED = 2**23  # decoded parameters or values held at once, in floats

FOUND_DF = 5.0  # degrees of freedom of distributions that were found by adaptation

# Folded into the key of a block, for other random numbers than those of the proposal.
VALUES, FOUND = 2**31 - 1, 2**31 - 3


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
    key: UInt32[Array, "T 2"]  # the words of a row's threefry key
    found: Found
    block: Int[Array, " T"]
    counts: Bool[Array, "T K"]  # samples of the block that count


class Samples(NamedTuple):
    """Latent samples of each lane, their log-weights and values.

    By groups, and within a group as the networks leave them: the lanes are the last axis.
    """

    z: Float[Array, "N L K G"]
    log_w: Float[Array, "N K G"]
    values: Float[Array, "N V K G"]


def lane_counts(autoencoder: Autoencoder, n_values: int) -> tuple[int, int]:
    """Lanes of a group and of a call; they depend on the model and the estimand alone."""
    width = BLOCK * max(autoencoder.generative.observation.n_parameters, n_values)
    group = next((n for n in (GROUP, 16, 8, 4, 2) if n * width <= DECODED), 1)
    calls = (n for n in (CALL, 128, 32) if n >= group and n * width <= DECODED)
    return group, next(calls, group)


@compiled
def draw_lanes(
    autoencoder: Autoencoder, estimand: Estimand, lanes: Lanes, n_lanes: Count
) -> Samples:
    """Draw a block for each of the first `n_lanes` lanes; the others cost nothing.

    Either something was found for all of their rows or for none: each case has its own code, so
    that rows of both sorts in one call would not have the bits that they have elsewhere.
    """
    size, _ = lane_counts(autoencoder, estimand.n_values)
    adapted = jnp.any(lanes.found.exists)
    n_groups = len(lanes.block) // size
    groups = jax.tree.map(lambda a: a.reshape(n_groups, size, *a.shape[1:]), lanes)
    groups = _turned(groups)  # in memory: loops over rows that lie far apart are not vectorised
    own_of = lambda i: jax.tree.map(lambda a: a[i], groups)  # noqa: E731
    draw = lambda i: _drawn(autoencoder, estimand, own_of(i), adapted)  # noqa: E731
    shapes = jax.eval_shape(draw, 0)
    nothing = jax.tree.map(lambda a: jnp.zeros((n_groups, *a.shape), a.dtype), shapes)

    def one_group(i: Count, drawn: Samples) -> Samples:
        return jax.tree.map(lambda into, new: into.at[i].set(new), drawn, draw(i))

    return jax.lax.fori_loop(0, -(-n_lanes // size), one_group, nothing)


def _turned(lanes: Lanes) -> Lanes:
    """With lanes and cells, or lanes and samples, exchanged."""
    names = ("x", "observed", "held_out", "counts")
    return lanes._replace(**{name: jnp.swapaxes(getattr(lanes, name), -1, -2) for name in names})


def _drawn(
    autoencoder: Autoencoder, estimand: Estimand, lanes: Lanes, adapted: Bool[Array, ""]
) -> Samples:
    """One block for each lane; samples that do not count have no weight."""
    lanes = _turned(lanes)
    own = jax.random.wrap_key_data(lanes.key, impl="threefry2x32")
    key = fold_in(own, lanes.block)
    proposal = autoencoder.propose(lanes.x, lanes.observed)
    z, log_q = _sampled(proposal, lanes.found, key, adapted)
    z, eta, log_w = weighted(autoencoder, z, log_q, lanes.x, lanes.observed)
    given = Given(eta, lanes.x, lanes.observed, lanes.held_out, fold_in(key, VALUES))
    values = estimand.values(autoencoder.generative.observation, given)
    counts = lanes.counts.T
    log_w = jnp.where(counts, log_w, -jnp.inf)
    values = jnp.where(counts[None], features_first(values), 0.0)
    return Samples(features_first(z), log_w, values)


def _sampled(
    proposal: AbstractProposal, found: Found, key: RowKeys, adapted: Bool[Array, ""]
) -> tuple[Latents, PerSample]:
    """A block from the proposal; where something was found for a row, every other sample of that.

    The second half of a block is the mirror image of the first where the proposal is symmetric.
    """
    if proposal.stratified:
        z = proposal.sample(key, BLOCK)
        return z, log_density(proposal, z)
    if proposal.centre is None:
        z, log_q = proposal.sample_and_log_prob(key, BLOCK)
    else:
        half, log_half = proposal.sample_and_log_prob(key, BLOCK // 2)
        z = jnp.concatenate([half, 2 * proposal.centre[None] - half])
        log_q = jnp.concatenate([log_half, log_half])
    mixed = lambda: _mixed(proposal, found, key, z)  # noqa: E731
    return jax.lax.cond(adapted, mixed, lambda: (z, log_q))


def _mixed(
    proposal: AbstractProposal, found: Found, key: RowKeys, z: Latents
) -> tuple[Latents, PerSample]:
    n_rows, n_latent = found.loc.shape
    df = jnp.full((1, 1, 1), FOUND_DF)
    eps = standard_student_t(fold_in(key, FOUND), df, (n_latent, BLOCK // 2, n_rows))
    eps = jnp.moveaxis(jnp.concatenate([eps, -eps], axis=1), 0, -1)
    other = found.loc[None] + jnp.einsum("blm,kbm->kbl", found.tril, eps)
    z = jnp.where((jnp.arange(BLOCK) % 2 == 0)[:, None, None], other, z)
    inner = jnp.einsum("blm,kbm->kbl", found.inverse, z - found.loc[None])
    log_det = jnp.sum(jnp.log(jnp.diagonal(found.inverse, axis1=-2, axis2=-1)), axis=-1)
    log_found = jnp.sum(student_t_log_prob(inner, df), axis=-1) + log_det[None]
    return z, jnp.logaddexp(proposal.log_prob(z), log_found) - math.log(2)
