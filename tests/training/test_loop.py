import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from miwae.errors import DataError, DivergenceError, FileFormatError, SettingsError
from miwae.inference.likelihood import log_likelihood
from miwae.model.build import dense_autoencoder, linear_autoencoder, linear_core
from miwae.model.observations import Normal, StudentT
from miwae.model.posteriors import NormalPosterior
from miwae.model.priors import VampPrior
from miwae.training import loop, steps
from miwae.training.holdout import HeldOutScore
from miwae.training.loop import fit, fit_stream, refit_amortizer
from miwae.training.settings import TrainingSettings
from miwae.training.state import initial_state

MODEL = oracle.linear_gaussian(n_features=5, n_latent=2)
X, OBSERVED = oracle.simulate(MODEL, 200, missing=0.3)
KEY = jax.random.key(0)
SMALL = TrainingSettings(max_steps=24, evaluate_every=6, n_samples=4, batch_size=50)


def small_autoencoder(key=KEY, **options):
    return dense_autoencoder(StudentT(5), n_latent=2, n_hidden=8, n_layers=1, key=key, **options)


def arrays_of(tree):
    data = lambda a: jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a  # noqa: E731
    return [np.asarray(data(leaf)) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def assert_equal(a, b):
    for left, right in zip(arrays_of(a), arrays_of(b), strict=True):
        assert np.array_equal(left, right)


def test_training_raises_the_bound_towards_the_likelihood_of_the_truth():
    settings = TrainingSettings(
        max_steps=1_500, evaluate_every=300, learning_rate=5e-3, schedule="cosine", batch_size=50
    )
    observation = Normal(5, scale_floor=0.1)
    start = dense_autoencoder(
        observation, n_latent=2, n_hidden=16, n_layers=1, indicator=True, key=KEY
    )
    history = fit(start, X, OBSERVED, settings=settings, key=KEY).history
    bounds = [record.bound for record in history]
    truth = oracle.log_prob(MODEL, X, OBSERVED).mean()
    assert bounds[0] < truth - 0.3  # the mean of the first 300 steps
    assert bounds[-1] > truth - 0.15


def test_a_run_through_a_checkpoint_ends_as_one_without_bit_for_bit(tmp_path):
    settings = dataclasses.replace(SMALL, held_out=0.1)  # 4 epochs of 200 rows are 16 steps
    whole = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    half = dataclasses.replace(settings, max_steps=12)
    path = tmp_path / "run.safetensors"
    fit(small_autoencoder(), X, OBSERVED, settings=half, key=KEY, checkpoint=path)
    resumed = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY, checkpoint=path)
    assert_equal(whole.state, resumed.state)
    without_time = lambda records: [record._replace(seconds=0.0)[1:] for record in records]  # noqa: E731
    np.testing.assert_equal(without_time(whole.history), without_time(resumed.history))


def test_a_finished_run_is_not_run_again(tmp_path):
    path = tmp_path / "run.safetensors"
    first = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, checkpoint=path)
    again = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, checkpoint=path)
    assert_equal(first.state, again.state)


def test_a_checkpoint_of_more_steps_than_asked_for_is_refused(tmp_path):
    """Or the model of 12 steps would be one of 24, and nobody would know."""
    path = tmp_path / "run.safetensors"
    fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, checkpoint=path)
    fewer = dataclasses.replace(SMALL, max_steps=12)
    with pytest.raises(FileFormatError, match=r"of step 24, beyond max_steps \(12\)"):
        fit(small_autoencoder(), X, OBSERVED, settings=fewer, key=KEY, checkpoint=path)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, checkpoint=path)
    other = dataclasses.replace(SMALL, learning_rate=0.1)
    with pytest.raises(FileFormatError, match="learning_rate=0.001, but this run has"):
        fit(small_autoencoder(), X, OBSERVED, settings=other, key=KEY, checkpoint=path)
    with pytest.raises(FileFormatError, match="on other data or with another key"):
        fit(small_autoencoder(), X + 1, OBSERVED, settings=SMALL, key=KEY, checkpoint=path)
    other_key = jax.random.key(1)
    with pytest.raises(FileFormatError, match="on other data or with another key"):
        fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=other_key, checkpoint=path)
    with pytest.raises(FileFormatError, match="order has shape"):
        fit(small_autoencoder(), X[:99], OBSERVED[:99], settings=SMALL, key=KEY, checkpoint=path)


def test_a_fit_is_traced_once_whatever_the_length_of_its_chunks(monkeypatch):
    traced = []
    original = steps.bound_and_gradient
    monkeypatch.setattr(
        steps, "bound_and_gradient", lambda *a, **k: traced.append(1) or original(*a, **k)
    )
    settings = dataclasses.replace(SMALL, max_steps=20, evaluate_every=7, n_samples=3)
    fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    assert len(traced) == 1


def test_the_result_can_be_an_average_of_the_weights():
    """Of those after each step, each with a smaller share than the next."""
    settings = dataclasses.replace(SMALL, averaging=0.9, max_steps=12, evaluate_every=1)
    state = initial_state(small_autoencoder(), settings, KEY, len(X))
    average = weights = arrays_of(state.autoencoder)
    data = (jnp.asarray(X, dtype=jnp.float32), jnp.asarray(OBSERVED))
    for step in range(12):
        state = steps.advance(state, *data, settings, jnp.asarray(1)).state
        weights = arrays_of(state.autoencoder)
        share = max(0.1, 9 / (10 + step))
        average = [a + share * (w - a) for a, w in zip(average, weights, strict=True)]
    result = arrays_of(state.result(settings))
    for ours, expected in zip(result, average, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    assert any(np.abs(a - w).max() > 1e-4 for a, w in zip(result, weights, strict=True))


def test_hidden_inputs_are_others_in_each_step_and_stay_in_the_bound():
    observed = jnp.asarray(OBSERVED)
    settings = dataclasses.replace(SMALL, input_dropout=0.3)
    first, second = (steps._visible(observed, jax.random.key(i), settings) for i in (0, 1))
    assert not (first & ~observed).any()
    assert (first != second).any()
    # About 700 observed cells: a share has a standard deviation of 0.017.
    assert float(first.sum() / observed.sum()) == pytest.approx(0.7, abs=0.08)
    plain = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY)
    hiding = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    assert hiding.history[-1].bound != plain.history[-1].bound
    assert np.isfinite(hiding.history[-1].bound)


def test_a_run_follows_from_its_key():
    a, b = (fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY) for _ in range(2))
    assert_equal(a.state, b.state)
    c = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=jax.random.key(1))
    assert a.history[-1].bound != c.history[-1].bound


def test_missing_cells_cannot_be_read_by_training():
    a = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY)
    b = fit(small_autoencoder(), np.where(OBSERVED, X, np.nan), settings=SMALL, key=KEY)
    assert_equal(a.state, b.state)


def test_every_epoch_visits_rows_in_a_new_order():
    state = initial_state(small_autoencoder(), SMALL, KEY, 200)
    visited = []
    for step in range(8):
        state = eqx.tree_at(lambda s: s.step, state, jnp.asarray(step))
        order, rows = steps._next_rows(state, 50)
        state = eqx.tree_at(lambda s: s.order, state, order)
        visited.append(np.asarray(rows))
    first, second = np.concatenate(visited[:4]), np.concatenate(visited[4:])
    assert np.array_equal(np.sort(first), np.arange(200))
    assert np.array_equal(np.sort(second), np.arange(200))
    assert not np.array_equal(first, second)


def test_early_stopping_keeps_the_best_state_by_held_out_cells():
    settings = TrainingSettings(
        max_steps=3_000,
        evaluate_every=50,
        n_samples=4,
        batch_size=20,
        learning_rate=2e-2,
        held_out=0.2,
        patience=5,
    )
    few, seen = X[:40], OBSERVED[:40]  # few rows and large steps: the network overfits
    result = fit(small_autoencoder(), few, seen, settings=settings, key=KEY)
    densities = [record.log_density for record in result.history]
    assert "held-out cells did not improve" in result.events[-1]
    assert result.history[-1].step < 3_000
    assert float(result.state.best_score) == pytest.approx(max(densities))
    assert densities[-1] < max(densities)


def test_noise_below_the_threshold_is_no_improvement():
    settings = TrainingSettings(
        max_steps=2_000,
        evaluate_every=5,
        n_samples=2,
        batch_size=20,
        learning_rate=1e-7,  # nothing is learned
        held_out=0.2,
        patience=4,
        min_improvement=1e-2,
    )
    result = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    assert result.history[-1].step == 20


def test_the_monitor_can_be_the_error():
    settings = dataclasses.replace(SMALL, held_out=0.2, monitor="error", learning_rate=1e-2)
    result = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    errors = [record.error for record in result.history]
    assert float(result.state.best_score) == pytest.approx(-min(errors))


def broken_after(autoencoder, n_calls, monkeypatch):
    """From the given chunk on, training meets NaN unless the step has been halved often enough."""
    original, calls = loop._steps_of, []

    def take_steps(settings, state, x, observed, n_steps):
        new = original(settings)(state, x, observed, n_steps)
        if int(n_steps) == 0:  # only compiled
            return new
        calls.append(float(state.step_scale))
        if len(calls) > n_calls and float(state.step_scale) > 0.3:
            return new._replace(bound=jnp.asarray(jnp.nan), finite=jnp.asarray(False))
        return new

    monkeypatch.setattr(loop, "_steps_of", lambda settings: partial(take_steps, settings))
    return calls


def test_a_run_that_meets_nan_goes_back_with_a_smaller_step(monkeypatch):
    calls = broken_after(small_autoencoder(), 1, monkeypatch)
    result = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY)
    assert calls[:4] == [1.0, 1.0, 0.5, 0.25]
    assert [record.step for record in result.history] == [6, 12, 18, 24]
    assert sum("went back and halved the step" in event for event in result.events) == 2


def test_a_run_that_cannot_be_saved_stops_with_an_error(monkeypatch):
    broken_after(small_autoencoder(), 1, monkeypatch)
    settings = dataclasses.replace(SMALL, max_rollbacks=1)
    with pytest.raises(DivergenceError, match="between steps 6 and 12"):
        fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)


def test_a_run_that_was_sent_back_ends_alike_after_an_interruption(monkeypatch, tmp_path):
    original = loop._steps_of

    def take_steps(settings, state, x, observed, n_steps):
        new = original(settings)(state, x, observed, n_steps)
        largest = {6: 0.6, 12: 0.3}.get(int(state.step), 1.0)
        fails = int(n_steps) > 0 and float(state.step_scale) > largest
        return new._replace(finite=jnp.asarray(False)) if fails else new

    monkeypatch.setattr(loop, "_steps_of", lambda settings: partial(take_steps, settings))
    whole = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY)
    assert sum("went back" in event for event in whole.events) == 2
    half = dataclasses.replace(SMALL, max_steps=12)
    path = tmp_path / "run.safetensors"
    fit(small_autoencoder(), X, OBSERVED, settings=half, key=KEY, checkpoint=path)
    resumed = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, checkpoint=path)
    assert_equal(whole.state, resumed.state)
    assert resumed.events == whole.events


def test_a_run_that_blows_up_at_once_goes_back_to_its_start():
    observation = Normal(5)
    core = linear_core(observation, X, OBSERVED, n_latent=2)
    start = linear_autoencoder(observation, core, n_hidden=8, n_layers=1, key=KEY)
    wild = dataclasses.replace(SMALL, learning_rate=3.0, max_rollbacks=20, clip=1e9)
    result = fit(start, X, OBSERVED, settings=wild, key=KEY)
    assert "went back and halved the step" in result.events[0]
    assert "between steps 0 and 6" in result.events[0]
    assert result.history[0].bound > -100


def test_a_first_score_that_is_no_number_is_not_the_one_to_beat():
    state = initial_state(small_autoencoder(), SMALL, KEY, n_rows=1)
    for value in (np.nan, -3.0, -2.0):
        score = HeldOutScore(jnp.asarray(value), jnp.asarray(1.0))
        state = loop._judged(state, score, SMALL)
    assert float(state.reference_score) == -2.0
    assert int(state.waited) == 0


def test_real_nan_and_real_divergence_are_noticed():
    bad = eqx.tree_at(
        lambda a: a.generative.decoder.layers[-1].bias, small_autoencoder(), jnp.full(15, jnp.nan)
    )
    with pytest.raises(DivergenceError, match="not finite"):
        fit(bad, X, OBSERVED, settings=SMALL, key=KEY)
    wild = dataclasses.replace(SMALL, learning_rate=1e4, max_steps=200, divergence=5.0)
    with pytest.raises(DivergenceError, match=r"learning_rate \(now 10000\)"):
        fit(small_autoencoder(), X, OBSERVED, settings=wild, key=KEY)


def test_one_strange_row_is_no_divergence():
    """A normal density has no limit: one row would be worth more than all others together."""
    x, observed = X.copy(), OBSERVED.copy()
    x[7], observed[7] = 1e5, True
    start = dense_autoencoder(Normal(5), n_latent=2, n_hidden=8, n_layers=1, key=KEY)
    alone = log_likelihood(start, x[7:8], observed[7:8], key=KEY, n_samples=4).log_prob
    assert alone < -1e9
    result = fit(start, x, observed, settings=SMALL, key=KEY)
    assert result.events == ("stopped after 24 steps, the most allowed",)
    # Of a chunk's 300 rows two at most are this one, with five cells.
    assert min(record.bound for record in result.history) > -20 - 2 * 500 / 300


def test_online_learning_uses_batches_once_and_of_any_size():
    settings = dataclasses.replace(SMALL, learning_rate=1e-2, batch_size=50)
    state = initial_state(small_autoencoder(), settings, KEY, n_rows=1)
    sizes = [70, 50, 80, 10, 120]
    x, observed = oracle.simulate(MODEL, 50 * sum(sizes), missing=0.3)

    def batches():
        place = 0
        for _ in range(10):
            for size in sizes:
                yield x[place : place + size], observed[place : place + size]
                place += size

    result = fit_stream(state, batches(), settings=settings)
    assert len(result.history) == 50
    assert int(result.state.step) == 10 * (2 + 1 + 2 + 1 + 3)
    first, last = (
        np.mean([r.bound for r in result.history[i]]) for i in (slice(5), slice(-5, 50))
    )
    assert last > first + 1


def test_an_unusual_row_does_not_end_online_learning():
    state = initial_state(small_autoencoder(), SMALL, KEY, n_rows=1)
    strange = np.full((1, 5), 500.0)
    result = fit_stream(state, [X, strange, X], settings=SMALL)
    assert result.history[1].bound < result.history[0].bound - 50
    assert np.isfinite(result.history[2].bound)
    assert result.events == ()


def test_a_row_with_nothing_observed_is_refused_in_a_stream():
    state = initial_state(small_autoencoder(), SMALL, KEY, n_rows=1)
    seen = OBSERVED[:60].copy()
    seen[40] = False
    with pytest.raises(DataError, match="row 40 has no observed cell"):
        fit_stream(state, [(X[:60], seen)], settings=SMALL)


def test_refitting_moves_the_amortizer_only_and_tightens_the_estimate():
    model = eqx.tree_at(lambda a: a.amortizer.shift, oracle.exact_autoencoder(MODEL), jnp.ones(()))
    settings = dataclasses.replace(SMALL, max_steps=300, evaluate_every=100, learning_rate=5e-2)
    result = refit_amortizer(model, X, OBSERVED, settings=settings, key=KEY)
    assert_equal(result.autoencoder.generative, model.generative)
    ess = [
        log_likelihood(m, X, OBSERVED, key=KEY, n_samples=200).report.effective_sample_size.mean()
        for m in (model, result.autoencoder)
    ]
    assert ess[1] > 2 * ess[0]


def test_refitting_keeps_a_prior_made_of_posteriors():
    model = small_autoencoder(
        posterior=NormalPosterior(2), prior=VampPrior(2, jax.random.normal(KEY, (3, 5)))
    )
    result = refit_amortizer(model, X, OBSERVED, settings=SMALL, key=KEY).autoencoder
    z = jax.random.normal(KEY, (1, 6, 2))
    before = model.generative.prior.log_prob(z, model.amortizer)
    after = result.generative.prior.log_prob(z, result.amortizer)
    assert np.array_equal(before, after)
    moved = arrays_of(result.amortizer)[0] - arrays_of(model.amortizer)[0]
    assert np.abs(moved).max() > 0


def test_weight_decay_leaves_the_linear_core_alone():
    core = linear_core(Normal(5), X, OBSERVED, n_latent=2)
    start = linear_autoencoder(Normal(5), core, n_hidden=8, n_layers=1, key=KEY)
    settings = dataclasses.replace(SMALL, optimizer="adamw", weight_decay=10.0)
    end = fit(start, X, OBSERVED, settings=settings, key=KEY).autoencoder
    assert_equal(end.amortizer.core, start.amortizer.core)
    norm = lambda a: float(jnp.linalg.norm(a.amortizer.encoder.layers[0].weight))  # noqa: E731
    assert norm(end) < 0.9 * norm(start)


@pytest.mark.parametrize(
    ("x", "observed", "message"),
    [
        (X, np.where(np.arange(200)[:, None] == 7, False, OBSERVED), "row 7 has no observed cell"),
        (X, OBSERVED & (np.arange(5) != 3), "column 3 has no observed cell"),
        (X[:, :4], OBSERVED[:, :4], "the model has 5 features, but x has 4 columns"),
        (np.where(X > 3, np.inf, X), np.ones_like(OBSERVED), "observed cells must be finite"),
        (X[:0], OBSERVED[:0], "nothing to learn from"),
    ],
)
def test_data_that_cannot_be_learned_from_are_refused_by_name(x, observed, message):
    with pytest.raises(DataError, match=message):
        fit(small_autoencoder(), x, observed, settings=SMALL, key=KEY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1, not 0"),
        ({"batch_size": -1}, "batch_size must be at least 1"),
        ({"estimator": "reinforce"}, "estimator must be one of"),
        ({"held_out": 1.0}, "held_out must be in"),
        ({"input_dropout": 1.0}, "input_dropout must be in"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"schedule": "linear"}, "schedule must be one of constant, cosine"),
        ({"patience": 0}, "patience must be at least 1"),
        ({"max_seconds": -1.0}, "max_seconds must be at least 0"),
        ({"min_improvement": np.nan}, "min_improvement must be at least 0"),
        ({"divergence": -1.0}, "divergence must be positive"),
    ],
)
def test_bad_settings_are_refused_by_name(change, message):
    with pytest.raises(SettingsError, match=message):
        dataclasses.replace(SMALL, **change)


def test_the_callback_hears_of_compilation_and_of_every_evaluation():
    heard = []
    fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, callback=heard.append)
    assert [p.phase for p in heard] == ["compiling", *["training"] * 4, "done"]
    assert [p.step for p in heard] == [0, 6, 12, 18, 24, 24]


def test_time_can_be_limited():
    settings = dataclasses.replace(SMALL, max_steps=10**7, max_seconds=0.5)
    result = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    assert "max_seconds is used up" in result.events[-1]


FINISHED = dataclasses.replace(
    SMALL, held_out=0.3, monitor="error", patience=None, learning_rate=3e-3, finish=0.5
)


def test_the_last_steps_learn_from_the_held_out_cells_from_the_best_state_on():
    judged = fit(
        small_autoencoder(),
        X,
        OBSERVED,
        settings=dataclasses.replace(FINISHED, finish=0.0),
        key=KEY,
    )
    finished = fit(small_autoencoder(), X, OBSERVED, settings=FINISHED, key=KEY)
    best = min(judged.history, key=lambda record: record.error).step
    assert best > 0
    assert [r.error for r in finished.history] == [r.error for r in judged.history]
    assert finished.events[-1] == (
        f"went on from the best state for {best // 2} steps with the held-out cells"
    )
    # The same steps, by hand: a new run from the best state in which nothing is held out.
    fresh = initial_state(
        judged.autoencoder, FINISHED, jax.random.fold_in(KEY, loop.FINISH), len(X)
    )
    by_hand = steps.advance(
        fresh, jnp.asarray(X), jnp.asarray(OBSERVED), FINISHED, jnp.asarray(best // 2)
    ).state
    assert_equal(finished.autoencoder, by_hand.autoencoder)


@pytest.mark.parametrize(("most", "done"), [(2, 6), (0, 0)])
def test_finishing_keeps_to_the_time(most, done):
    """A chunk takes a second of this clock; 30 steps are 10 chunks."""
    settings = dataclasses.replace(FINISHED, max_seconds=float(most))
    state = initial_state(small_autoencoder(), settings, KEY, len(X))
    data = (jnp.asarray(X, dtype=jnp.float32), jnp.asarray(OBSERVED))
    clock = iter(range(100))
    last, event = loop._finished(
        state,
        state,
        lambda now, n: steps.advance(now, *data, settings, jnp.asarray(n)),
        30,
        settings,
        loop._Guard(settings, 3.0),
        lambda: next(clock),
        lambda _: None,
    )
    assert int(last.step) == done
    expected = f"for {done} steps" if done else "not learned from: max_seconds is used up"
    assert expected in event


def test_time_is_left_for_the_last_steps():
    settings = dataclasses.replace(FINISHED, finish=0.5, max_seconds=10.0)
    state = initial_state(small_autoencoder(), settings, KEY, len(X))
    evaluation, _ = loop._evaluation(
        X, OBSERVED, settings, np.random.default_rng(0), KEY, copies_of=None
    )
    assert "max_seconds" in str(loop._reason_to_stop(state, settings, 7.0, evaluation))
    assert loop._reason_to_stop(state, settings, 6.0, evaluation) is None
    assert loop._reason_to_stop(state, settings, 7.0, None) is None


def test_a_single_step_that_helped_is_followed_by_another():
    settings = dataclasses.replace(FINISHED, max_steps=1, evaluate_every=1, learning_rate=1e-3)
    fitted = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    before, after = (np.float64(record.error) for record in fitted.history)
    assert after < before
    assert fitted.events[-1] == "went on from the best state for 1 steps with the held-out cells"


def test_finishing_needs_a_constant_rate():
    with pytest.raises(SettingsError, match="constant"):
        TrainingSettings(finish=0.3, schedule="cosine")


def test_last_steps_that_diverge_are_not_kept(monkeypatch):
    settings = dataclasses.replace(FINISHED, finish=0.0)
    judged = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    is_good = loop._Guard.is_good
    calls = []

    def bad_at_last(guard, new):
        calls.append(new)
        return is_good(guard, new) and len(calls) < len(judged.history)

    monkeypatch.setattr(loop._Guard, "is_good", bad_at_last)
    finished = fit(small_autoencoder(), X, OBSERVED, settings=FINISHED, key=KEY)
    assert finished.events[-1].endswith("training diverged with them")
    assert_equal(finished.autoencoder, judged.autoencoder)
