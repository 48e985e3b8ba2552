import dataclasses
import json
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from miwae.errors import DataError, FileFormatError
from miwae.inference._likelihood import log_likelihood
from miwae.model import Normal
from miwae.model._build import dense_autoencoder
from miwae.model._posteriors import NormalPosterior
from miwae.model._priors import VampPrior
from miwae.training import TrainingRecord, TrainingSettings, fit, initial_state, refit_amortizer
from miwae.training import _loop as loop
from miwae.training import _steps as steps
from miwae.training._checkpoint import signed
from miwae.training._programs import n_padded
from small_training import (
    FINISHED,
    KEY,
    MODEL,
    OBSERVED,
    SMALL,
    X,
    arrays_of,
    assert_equal,
    small_autoencoder,
)


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


def rates_of(monkeypatch, settings):
    """The step sizes of a run's chunks."""
    rates, take = [], loop._at_rate

    def noted(take_steps, state, n_steps, rate):
        rates.append(rate)
        return take(take_steps, state, n_steps, rate)

    monkeypatch.setattr(loop, "_at_rate", noted)
    result = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    return rates, result


def test_the_step_size_of_an_annealed_run_falls_to_zero(monkeypatch):
    settings = dataclasses.replace(SMALL, max_steps=40, evaluate_every=4, annealed=True)
    rates, result = rates_of(monkeypatch, settings)
    expected = [0.5 + 0.5 * math.cos(math.pi * (i + 0.5) / 10) for i in range(10)]
    np.testing.assert_allclose(rates, expected)
    assert float(result.state.step_scale) == 1.0  # the guard's alone


def test_steps_of_rate_zero_change_nothing():
    settings = dataclasses.replace(SMALL, max_steps=4)
    start = initial_state(small_autoencoder(), settings, KEY, n_padded(len(X)))
    run, _ = prepared(settings, lambda: 0.0)
    new = loop._at_rate(loop._steps_on(run, OBSERVED), start, 4, 0.0)
    assert_equal(new.state.autoencoder, start.autoencoder)
    assert int(new.state.step) == 4


def test_an_annealed_run_through_a_checkpoint_ends_as_one_without(tmp_path, monkeypatch):
    settings = dataclasses.replace(SMALL, max_steps=16, annealed=True, held_out=0.1)
    whole = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    path, stop = tmp_path / "run.safetensors", loop._reason_to_stop
    early = lambda run, state: "stopped" if int(state.step) >= 8 else stop(run, state)  # noqa: E731
    monkeypatch.setattr(loop, "_reason_to_stop", early)
    fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY, checkpoint=path)
    monkeypatch.undo()
    resumed = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY, checkpoint=path)
    assert_equal(whole.state, resumed.state)


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("history", [[1, 2]]),
        ("history", 5),
        ("history", [["one", 0.0, None, None, 1.0, 0.0]]),
        ("memory", []),
        ("memory", ["best", 0, []]),
        ("memory", [0.0, 0, [1]]),
        ("settings", 3),
        ("settings", {}),
        ("history", None),
    ],
)
def test_a_checkpoint_with_an_edited_header_is_refused(checkpointed, tmp_path, name, value):
    path = tmp_path / "checkpoint"
    data = checkpointed
    length = int.from_bytes(data[:8], "little")
    table = json.loads(data[8 : 8 + length])
    header = json.loads(table["__metadata__"]["header"])
    table["__metadata__"]["header"] = json.dumps({**header, name: value})
    head = json.dumps(table).encode()
    path.write_bytes(signed(len(head).to_bytes(8, "little") + head + data[8 + length :]))
    with pytest.raises(FileFormatError, match=str(path)):
        fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, checkpoint=path)


@pytest.fixture(scope="module")
def checkpointed(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "checkpoint"
    fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, checkpoint=path)
    return path.read_bytes()


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
    with pytest.raises(FileFormatError, match="on other data or with another key"):
        fit(small_autoencoder(), X[:99], OBSERVED[:99], settings=SMALL, key=KEY, checkpoint=path)
    many, seen = np.tile(X, (6, 1)), np.tile(OBSERVED, (6, 1))
    with pytest.raises(FileFormatError, match="order has shape"):
        fit(small_autoencoder(), many, seen, settings=SMALL, key=KEY, checkpoint=path)


def test_a_fit_is_traced_once_whatever_the_length_of_its_chunks(monkeypatch):
    traced = []
    original = steps.bound_and_gradient
    monkeypatch.setattr(
        steps, "bound_and_gradient", lambda *a, **k: traced.append(1) or original(*a, **k)
    )
    settings = dataclasses.replace(SMALL, max_steps=20, evaluate_every=7, n_samples=3)
    fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    assert len(traced) == 1


def test_a_run_follows_from_its_key():
    a, b = (fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY) for _ in range(2))
    assert_equal(a.state, b.state)
    c = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=jax.random.key(1))
    assert a.history[-1].bound != c.history[-1].bound


def test_missing_cells_cannot_be_read_by_training():
    a = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY)
    b = fit(small_autoencoder(), np.where(OBSERVED, X, np.nan), settings=SMALL, key=KEY)
    assert_equal(a.state, b.state)


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


def test_the_callback_hears_of_compilation_and_of_every_evaluation():
    heard = []
    fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, callback=heard.append)
    assert [p.phase for p in heard] == ["compiling", *["training"] * 4, "done"]
    assert [p.step for p in heard] == [0, 6, 12, 18, 24, 24]


def test_time_can_be_limited():
    settings = dataclasses.replace(SMALL, max_steps=10**7, max_seconds=0.5)
    result = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    assert "the time limit was reached" in result.events[-1]


def slow_steps(monkeypatch, seconds):
    """A clock on which nothing takes time but steps."""
    now, steps_on = [0.0], loop._steps_on

    def slow(*arguments):
        take_steps = steps_on(*arguments)

        def take(state, n_steps):
            now[0] += seconds * n_steps
            return take_steps(state, n_steps)

        return take

    monkeypatch.setattr(loop, "_steps_on", slow)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("finish", [0.0, 0.5])
def test_chunks_of_steps_fit_into_the_time(monkeypatch, finish):
    """Each chunk would be as long as all before it, and the last one far too long."""
    now = slow_steps(monkeypatch, 0.5)
    chosen = {"max_steps": 10**6, "evaluate_every": 8, "evaluate_growth": 1.0, "patience": None}
    chosen |= {"finish": finish, "max_seconds": 43.0, "held_out": 0.2, "learning_rate": 1e-3}
    settings = dataclasses.replace(FINISHED, **chosen)
    fitted = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    assert fitted.history[-1].step == math.ceil(43 / (1 + finish) / 0.5)
    assert now[0] <= 43.5  # at most a step more


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
    # The same steps, by hand: a new run from the best state in which nothing is held out, and
    # whose step size falls to zero.
    n_rows, key = n_padded(len(X)), jax.random.fold_in(KEY, loop.FINISH)
    state = initial_state(judged.autoencoder, FINISHED, key, n_rows)
    data = [jnp.pad(jnp.asarray(a), ((0, n_rows - len(X)), (0, 0))) for a in (X, OBSERVED)]
    data.append(jnp.ones(n_rows))
    n_steps, done = best // 2, 0
    chunk = -(-n_steps // loop.FINISHING_CHUNKS)
    while done < n_steps:
        own = min(chunk, n_steps - done)
        rate = 0.5 + 0.5 * math.cos(math.pi * (done + own / 2) / n_steps)
        state = eqx.tree_at(lambda s: s.step_scale, state, jnp.float32(rate))
        numbers = (jnp.asarray(len(X)), jnp.asarray(own))
        state, done = steps.advance(state, *data, *numbers, FINISHED).state, done + own
    assert_equal(finished.autoencoder, state.autoencoder)


def prepared(settings, elapsed):
    """A run at its start, with another clock."""
    rows = loop._Rows(X, OBSERVED, np.ones(len(X), dtype=np.float32), OBSERVED)
    quiet = (lambda _: None, None, None)
    run, start = loop._prepare(small_autoencoder(), rows, settings, KEY, *quiet)
    return run._replace(elapsed=elapsed), start


@pytest.mark.parametrize(("most", "done"), [(2.0, 6), (2.5, 8), (0.0, 0)])
def test_finishing_keeps_to_the_time(monkeypatch, most, done):
    """Half of 60 steps are 10 chunks, each of which takes a second."""
    now = slow_steps(monkeypatch, 1 / 3)
    run, start = prepared(dataclasses.replace(FINISHED, max_seconds=most), lambda: now[0])
    best = TrainingRecord(60, -1.0, -1.0, 0.5, 1.0, 20.0)
    state, event = loop._with_held_out_cells(run, start._replace(history=(best,)))
    assert int(state.step) == done
    expected = f"for {done} steps" if done else "not learned from: the time limit was reached"
    assert expected in event


def test_time_is_left_for_the_last_steps():
    settings = dataclasses.replace(FINISHED, finish=0.5, max_seconds=10.0)
    late, start = prepared(settings, lambda: 7.0)
    early = late._replace(elapsed=lambda: 6.0)
    assert "time limit" in str(loop._reason_to_stop(late, start.state))
    assert loop._reason_to_stop(early, start.state) is None
    assert loop._reason_to_stop(late._replace(evaluation=None), start.state) is None


def test_a_single_step_that_helped_is_followed_by_another():
    settings = dataclasses.replace(FINISHED, max_steps=1, evaluate_every=1, learning_rate=1e-3)
    fitted = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    before, after = (np.float64(record.error) for record in fitted.history)
    assert after < before
    assert fitted.events[-1] == "went on from the best state for 1 step with the held-out cells"
