"""The compiled part of sampling: draw blocks of latent samples, and estimate from all so far.

What goes through the networks together is a group of lanes. A lane is a block of one row: the
lanes of a group belong to different rows, or to different blocks of a row. Groups have a fixed
size, and each block of a row has its own random numbers, so that what is drawn for a row, to the
last bit, is independent of the other rows.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from miwae._compilation import compiled, compiled_in_place
from miwae._shapes import Count, PerRow, RowKeys, Seen
from miwae.inference._estimands import Estimand
from miwae.inference._importance import effective_sample_size, smoothed, weighted_sum
from miwae.inference._weights import draw
from miwae.kernels import bits, fold_in
from miwae.model import Autoencoder

# Samples of a lane. It decides which random numbers belong to a block, so it is fixed; it has many
# divisors, so that mixtures of 2, 3, 4, 5, 6, 8 or 10 components are sampled in equal shares.
BLOCK = 120

# Lanes that go through the networks together: one vector register of rows on most CPUs.
GROUP = 16

# Decoded parameters held at once, in floats: for very wide rows there are fewer lanes in a group.
DECODED = 2**23

UNRELIABLE = 0.7  # Pareto's k above which plain weights cannot be trusted (Vehtari et al., 2024)

# Folded into the key of a block or of a row, for other random numbers than those of the proposal.
VALUES, CUT, SUMMARY = 2**31 - 1, 2**31 - 2, 2**31 - 3


class Rows(NamedTuple):
    """The rows that are sampled together."""

    x: Float[Array, "B D"]
    observed: Seen
    key: RowKeys


class Samples(NamedTuple):
    """Log-weights and values of the latent samples of each row, with room for R of each."""

    log_w: Float[Array, "R B"]
    values: Float[Array, "R B V"]


class Round(NamedTuple):
    """Which rows have their samples increased from which number of blocks to which.

    Numbers are arrays: they are arguments of the compiled programs, not a part of them.
    """

    order: Int[Array, " B"]  # row numbers, those of this round first
    n_rows: Count  # how many are in this round
    first: Count  # blocks that they have
    last: Count  # blocks that they will have
    n_samples: Count  # samples that count in these blocks


def _lanes(autoencoder: Autoencoder) -> int:
    """Lanes of a group; they depend on the model alone."""
    width = BLOCK * autoencoder.generative.observation.n_parameters
    return next((n for n in (16, 8, 4, 2) if n * width <= DECODED), 1)


@compiled_in_place
def draw_blocks(given: tuple[Autoencoder, Estimand, Rows, Round], samples: Samples) -> Samples:
    """Draw the blocks of a round into the buffers of `samples`, which are reused."""
    autoencoder, estimand, rows, now = given
    n_lanes = _lanes(autoencoder)
    n_blocks = now.last - now.first
    total = now.n_rows * n_blocks

    def one_group(i: Count, samples: Samples) -> Samples:
        # The last group is filled up with repetitions of the last lane.
        lane = jnp.minimum(i * n_lanes + jnp.arange(n_lanes), total - 1)
        row, block = now.order[lane // n_blocks], now.first + lane % n_blocks
        own = jax.tree.map(lambda a: a[row], rows)
        new = _drawn(autoencoder, estimand, own, block, now.n_samples)

        def put(j: Count, samples: Samples) -> Samples:
            place = (block[j] * BLOCK, row[j])
            log_w = jax.lax.dynamic_slice_in_dim(new.log_w, j, 1, axis=1)
            values = jax.lax.dynamic_slice_in_dim(new.values, j, 1, axis=1)
            return Samples(
                jax.lax.dynamic_update_slice(samples.log_w, log_w, place),
                jax.lax.dynamic_update_slice(samples.values, values, (*place, 0)),
            )

        return jax.lax.fori_loop(0, n_lanes, put, samples)

    return jax.lax.fori_loop(0, -(-total // n_lanes), one_group, samples)


def _drawn(
    autoencoder: Autoencoder,
    estimand: Estimand,
    rows: Rows,
    block: Int[Array, " B"],
    n_samples: Count,
) -> Samples:
    """One block for each lane; samples that do not count have no weight."""
    key = fold_in(rows.key, block)
    _, eta, log_w = draw(autoencoder, rows.x, rows.observed, key, BLOCK)
    observation = autoencoder.generative.observation
    values = estimand.values(observation, eta, rows.x, rows.observed, fold_in(key, VALUES))
    # Of a cut block a random part counts: the mean over the whole block of a stratified proposal
    # is unbiased, and so is that over samples chosen at random, but not that over the first few.
    start = bits(fold_in(key, CUT), (1, len(block))) % BLOCK
    place = (jnp.arange(BLOCK)[:, None] + start) % BLOCK
    counts = place < (n_samples - block * BLOCK)[None]
    return Samples(jnp.where(counts, log_w, -jnp.inf), jnp.where(counts[..., None], values, 0.0))


class Estimates(NamedTuple):
    """What the samples of each row say so far; for rows of this round only."""

    mean: Float[Array, "B V"]
    standard_error: Float[Array, "B V"]
    log_mean_weight: PerRow
    effective_sample_size: PerRow
    pareto_k: PerRow
    summary: PyTree


@compiled
def estimate(
    estimand: Estimand, rows: Rows, now: Round, samples: Samples, smooth: Bool[Array, ""]
) -> Estimates:
    """Estimate from all samples of the rows of a round; finished rows cost nothing."""

    def of_group(i: Count) -> tuple[Int[Array, " G"], Estimates]:
        place = jnp.minimum(i * GROUP + jnp.arange(GROUP), now.n_rows - 1)
        chosen = now.order[place]
        return chosen, _estimated(estimand, rows.key, now, samples, chosen, smooth)

    def one_group(i: Count, known: Estimates) -> Estimates:
        chosen, new = of_group(i)
        return jax.tree.map(lambda a, b: a.at[chosen].set(b), known, new)

    shapes = jax.eval_shape(of_group, jnp.zeros((), dtype=int))[1]
    n_rows = len(now.order)
    nothing = jax.tree.map(lambda a: jnp.zeros((n_rows, *a.shape[1:]), a.dtype), shapes)
    return jax.lax.fori_loop(0, -(-now.n_rows // GROUP), one_group, nothing)


def _estimated(
    estimand: Estimand,
    key: RowKeys,
    now: Round,
    samples: Samples,
    chosen: Int[Array, " G"],
    smooth: Bool[Array, ""],
) -> Estimates:
    drawn = jnp.arange(len(samples.log_w))[:, None] < now.last * BLOCK
    log_w = jnp.where(drawn, samples.log_w[:, chosen], -jnp.inf)
    count = jnp.full(len(chosen), now.n_samples)
    better, k = smoothed(log_w, count, jnp.where(smooth, UNRELIABLE, jnp.inf))
    w = jax.nn.softmax(better, axis=0)

    def over_blocks(term: Callable[[Array, Array], Float[Array, "G V"]]) -> Float[Array, "G V"]:
        """The sum of a term over the blocks that are drawn."""

        def add(i: Count, total: Float[Array, "G V"]) -> Float[Array, "G V"]:
            of_block = lambda a: jax.lax.dynamic_slice_in_dim(a, i * BLOCK, BLOCK)  # noqa: E731
            own = of_block(w)
            # Where a sample has no weight, its value need not exist.
            return total + term(
                own, jnp.where(own[..., None] > 0, of_block(samples.values)[:, chosen], 0.0)
            )

        nothing = jnp.zeros((len(chosen), samples.values.shape[2]))
        return jax.lax.fori_loop(0, now.last, add, nothing)

    mean = over_blocks(weighted_sum)
    squares = over_blocks(lambda w, h: weighted_sum(w**2, (h - mean[None]) ** 2))
    summary = None
    if estimand.summary is not None:
        own_key = fold_in(key[chosen], SUMMARY)
        summary = estimand.summary(better, samples.values, chosen, own_key)
    log_mean = jax.nn.logsumexp(log_w, axis=0) - jnp.log(count.astype(log_w.dtype))
    ess = effective_sample_size(log_w)
    return Estimates(mean, jnp.sqrt(squares), log_mean, ess, k, summary)
