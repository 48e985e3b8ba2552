import jax
import jax.numpy as jnp
import numpy as np

import oracle
from miwae.inference import _importance as importance
from miwae.inference._estimands import conditional_mean
from miwae.inference._rounds import BLOCK, Round, Rows, Samples, draw_blocks, estimate

MODEL = oracle.linear_gaussian()
X, OBSERVED = oracle.simulate(MODEL, 20)
WIDE = oracle.wide_autoencoder(MODEL)
ESTIMAND = conditional_mean(WIDE.generative.observation)
ROWS = Rows(jnp.asarray(X), jnp.asarray(OBSERVED), jax.random.split(jax.random.key(0), 20))
ROOM = 4 * BLOCK


def numbers(order, n_rows, first, last, n_samples):
    padded = np.resize(np.asarray(order, dtype=np.int32), 20)
    return Round(jnp.asarray(padded), *map(jnp.asarray, (n_rows, first, last, n_samples)))


def unused():
    """Buffers as another bunch may leave them behind."""
    return Samples(jnp.full((ROOM, 20), 3.0), jnp.full((ROOM, 20, 4), jnp.nan))


def drawn(*rounds):
    samples = unused()
    for now in rounds:
        samples = draw_blocks((WIDE, ESTIMAND, ROWS, now), samples)
    return samples


def test_a_block_is_the_same_in_whatever_round_it_is_drawn():
    everything = range(20)
    at_once = drawn(numbers(everything, 20, 0, 3, 350))
    steps = [numbers(everything, 20, 0, 1, 120), numbers([5, 3, 17], 3, 1, 3, 350)]
    in_rounds = drawn(*steps)
    for a, b in zip(at_once, in_rounds, strict=True):
        assert np.array_equal(a[:BLOCK], b[:BLOCK])
        chosen = np.array([3, 5, 17])
        assert np.array_equal(a[: 3 * BLOCK, chosen], b[: 3 * BLOCK, chosen])
    assert (np.asarray(in_rounds.log_w)[BLOCK:, 0] == 3.0).all()  # not in the second round


def test_as_many_samples_count_as_a_round_allows():
    log_w = np.asarray(drawn(numbers(range(20), 20, 0, 3, 350)).log_w)
    assert (np.isfinite(log_w[: 3 * BLOCK]).sum(axis=0) == 350).all()
    cut = np.isfinite(log_w[2 * BLOCK : 3 * BLOCK])
    assert len(np.unique(cut.T, axis=0)) > 10  # each row has its own choice


def test_estimates_are_those_of_all_samples_of_a_row():
    now = numbers([8, 2, 11, 4], 4, 0, 3, 350)
    samples = drawn(now)
    found = estimate(ESTIMAND, ROWS, now, samples, jnp.asarray(False))
    chosen = np.array([8, 2, 11, 4])
    log_w, values = samples.log_w[: 3 * BLOCK, chosen], samples.values[: 3 * BLOCK, chosen]
    for ours, expected in (
        (found.mean, importance.self_normalised_mean(log_w, values)),
        (found.standard_error, importance.standard_error(log_w, values)),
        (found.effective_sample_size, importance.effective_sample_size(log_w)),
        (found.pareto_k, importance.pareto_k(log_w, jnp.full(4, 350))),
        (found.log_mean_weight, jax.nn.logsumexp(log_w, axis=0) - np.log(350)),
    ):
        np.testing.assert_allclose(ours[chosen], expected, rtol=2e-4, atol=2e-6)
    assert (np.asarray(found.mean)[0] == 0).all()  # not in this round
