import dataclasses

import jax
import numpy as np
import pytest
from miwae.modelling import ensemble, fitting
from miwae.modelling.ensemble import TableModel
from miwae.modelling.fitting import fit_model, update_model
from miwae.modelling.observation import observation_of, statistic_scale
from miwae.modelling.settings import Architecture, training_settings
from miwae.table.schema import ColumnSchema, Schema
from miwae.table.transforms import Transform
from scipy import stats

from miwae.errors import SettingsError
from miwae.inference._imputation import Quantiles
from miwae.inference._sampling import RowReport


def column(kind, levels=0, spread=1.0, transform=None):
    return ColumnSchema(
        name=f"{kind}{levels}",
        kind=kind,
        reason="",
        storage="number",
        levels=tuple(float(i) for i in range(levels)),
        transform=transform or (Transform() if kind in ("continuous", "positive") else None),
        spread=spread,
    )


MIXED = Schema(
    (
        column("categorical", 3),
        column("continuous"),
        column("constant"),
        column("binary", 2),
        column("count", spread=7.0),
        column("categorical", 50),
        column("positive"),
        column("ordinal", 4),
        column("categorical", 5),
        column("identifier"),
    )
)


def test_each_kind_gets_its_observation_model_and_each_column_its_place():
    observation = observation_of(MIXED)
    parts = {
        type(part.observation).__name__ + str(part.columns): part for part in observation.parts
    }
    # Positions are those among the modelled columns; 3 and 5 levels go together, 50 alone.
    assert set(parts) == {
        "StudentT(1, 5)",
        "Bernoulli(2,)",
        "Count(3,)",
        "Categorical(0, 7)",
        "Categorical(4,)",
        "Ordinal(6,)",
    }
    assert parts["Categorical(0, 7)"].observation.sizes == (3, 5)
    assert observation.n_features == len(MIXED.modelled) == 8


def test_the_unit_of_a_count_is_its_spread():
    observation = observation_of(MIXED)
    scale = statistic_scale(MIXED)
    assert scale.shape == (observation.n_statistics,)
    assert list(scale[scale != 1]) == [7.0]
    assert list(statistic_scale(Schema((column("count", spread=3.0),)))) == [3.0]


SKEWED = Transform(shape="log", centre=1.0, spread=2.0, deviation=50.0, lowest=-3.0, highest=3.0)
TAILED = Transform(shape="asinh", unit=4.0, centre=0.5, deviation=20.0, lowest=-3.0, highest=3.0)


def test_columns_on_another_scale_have_their_mean_on_the_users():
    """The statistic of a cell is its value in standard deviations, but for a shift."""
    columns = (column("continuous", transform=TAILED), column("positive", transform=SKEWED))
    observation = observation_of(Schema(columns))
    assert type(observation).__name__ == "StretchedNormal"
    y = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    statistics, _ = observation.statistics(
        jax.numpy.asarray(y), jax.numpy.ones(y.shape, dtype=bool)
    )
    values = [t.inverse(y[:, i]) / t.deviation for i, t in enumerate((TAILED, SKEWED))]
    np.testing.assert_allclose(statistics, np.stack(values, axis=1), rtol=1e-4)


def test_columns_that_follow_from_others_get_a_low_floor():
    """Two copies of one column up to a little noise, and a column of its own."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=300)
    x = np.stack([first, first + 0.01 * rng.normal(size=300), rng.normal(size=300)], axis=1)
    observed = rng.random(x.shape) < 0.9
    observed[:, 2] = True
    floors = fitted(x.astype(np.float32), observed).autoencoder.generative.observation.scale_floor
    assert max(floors[0], floors[1]) < floors[2] / 2


def test_numbers_that_take_few_values_have_point_masses_on_the_scale_of_the_model():
    scale = Transform(centre=2.0, spread=4.0)
    scaled = [-0.5, -0.25, 0.0, 0.25]
    few, some, many = (
        dataclasses.replace(
            column("continuous", transform=scale),
            points=tuple((float(i), 1 / n) for i in range(n)),
        )
        for n in (2, 4, 12)
    )
    schema = Schema((many, column("continuous"), few, some))
    parts = {part.columns: part.observation for part in observation_of(schema).parts}
    # 2 and 4 values go together, 12 alone.
    assert {columns: type(own).__name__ for columns, own in parts.items()} == {
        (1,): "StudentT",
        (2, 3): "Points",
        (0,): "Points",
    }
    np.testing.assert_array_equal(parts[2, 3].values.T, [[-0.5, -0.25, -0.25, -0.25], scaled])
    np.testing.assert_array_equal(parts[2, 3].shares.T, [[0.5, 0.5, 0.0, 0.0], [0.25] * 4])
    np.testing.assert_array_equal(statistic_scale(schema), np.ones(4))


def test_a_table_of_numbers_needs_no_parts():
    observation = observation_of(Schema((column("continuous"), column("positive"))))
    assert type(observation).__name__ == "StudentT"


def test_steps_and_held_out_cells_follow_from_the_number_of_cells():
    how = {
        "objective": "miwae",
        "n_samples": 5,
        "batch_size": None,
        "max_seconds": None,
        "early_stopping": True,
    }
    small = training_settings(np.ones((20, 5), bool), max_steps=None, **how)
    large = training_settings(np.ones((5_000, 20), bool), max_steps=None, **how)
    middle = training_settings(np.ones((500, 8), bool), max_steps=None, **how)
    assert (small.max_steps, middle.max_steps) == (500, 12_000)
    assert large.max_steps == int(24 * np.sqrt(100_000))
    assert (small.hasty, middle.hasty) == (True, False)
    assert (small.held_out, middle.held_out, large.held_out) == (0.2, 0.125, 0.05)
    assert (small.batch_size, middle.batch_size) == (32, 64)
    told = training_settings(
        np.ones((20, 5), bool), max_steps=7, **{**how, "early_stopping": False, "batch_size": 9}
    )
    assert (told.max_steps, told.held_out, told.patience) == (7, 0.0, None)
    assert told.batch_size == 9


def test_architectures_need_something_in_them():
    with pytest.raises(SettingsError, match="n_latent"):
        Architecture(n_latent=0)
    with pytest.raises(SettingsError, match="n_layers"):
        Architecture(n_layers=-1)


RNG = np.random.default_rng(0)
X = (RNG.normal(size=(300, 1)) + 0.5 * RNG.normal(size=(300, 3))).astype(np.float32)
OBSERVED = RNG.random(X.shape) < 0.8
OBSERVED[:, 0] = True
SETTINGS = training_settings(
    OBSERVED,
    objective="miwae",
    n_samples=5,
    batch_size=64,
    max_steps=4,
    early_stopping=False,
    max_seconds=None,
)


def fitted(x, observed, seed=0, settings=SETTINGS):
    return fit_model(
        observation_of(Schema((column("continuous"),) * 3)),
        x,
        observed,
        architecture=Architecture(n_latent=2, n_hidden=8, n_layers=1),
        settings=settings,
        key=jax.random.key(seed),
    )


@pytest.fixture(scope="module")
def models():
    return [fitted(X, OBSERVED, seed) for seed in range(2)]


def asked(models, **settings):
    return TableModel(
        [model.autoencoder for model in models],
        scale=np.ones(3, dtype=np.float32),
        n_samples=240,
        key=jax.random.key(3),
        **settings,
    )


def means_of(model):
    """All rows, of which those that need it are imputed, and the report of these."""
    out = X.copy()
    return out, model.means(X, OBSERVED, ~OBSERVED.all(axis=1), out)


@pytest.mark.long
def test_chunks_change_not_a_bit(models, monkeypatch):
    told = []
    whole = asked(models[:1], callback=lambda *a: told.append(a))
    means, report = means_of(whole)
    copies, _ = whole.draws(X, OBSERVED, 3)
    limits = whole.quantiles(X, OBSERVED, (0.1, 0.9))
    monkeypatch.setattr(ensemble, "CHUNK_CELLS", 1)  # 256 rows at once
    told.clear()
    means_in_chunks, report_in_chunks = means_of(whole)
    n_needed = int((~OBSERVED.all(axis=1)).sum())
    assert told[-1] == (n_needed, n_needed)
    assert np.array_equal(means, means_in_chunks)
    assert np.array_equal(report.n_samples, report_in_chunks.n_samples)
    assert np.array_equal(copies, whole.draws(X, OBSERVED, 3)[0])
    assert np.array_equal(limits, whole.quantiles(X, OBSERVED, (0.1, 0.9)))


def test_duplicates_far_apart_get_their_own_draws(models, monkeypatch):
    monkeypatch.setattr(ensemble, "CHUNK_CELLS", 1)
    twice = np.concatenate([X, X[:1]]), np.concatenate([OBSERVED[:], OBSERVED[:1]])
    twice[1][[0, -1]] = [True, False, False]
    copies, _ = asked(models[:1]).draws(*twice, 3)
    assert not np.array_equal(copies[:, 0, 1:], copies[:, -1, 1:])


def test_an_ensemble_averages_its_means_and_shares_its_draws(models):
    both = asked(models)
    means, report = means_of(both)
    # The key of a member, which a single model would fold once more.
    single = [means_of(asked([model]))[0] for model in models]
    # The second member uses other random numbers than it would alone.
    assert np.abs(means - np.mean(single, axis=0)).max() < 0.5
    assert np.abs(means - np.mean(single, axis=0))[OBSERVED].max() < 1e-6
    assert (report.n_samples >= 240).all()  # a block at least for each member
    copies, _ = both.draws(X, OBSERVED, 5)
    assert copies.shape == (5, *X.shape)
    assert np.array_equal(copies[:, OBSERVED], np.repeat(X[OBSERVED][None], 5, axis=0))
    lower, upper = both.quantiles(X, OBSERVED, (0.1, 0.9))
    assert (lower <= upper).all()
    log_prob = both.log_prob(X, OBSERVED)
    assert np.isfinite(log_prob).all()


@pytest.mark.parametrize("level", [0.25, 0.05, 0.02])
def test_limits_of_an_ensemble_are_the_quantiles_of_its_mixture(models, monkeypatch, level):
    def normal_quantiles(autoencoder, x, observed, *, levels, **_):
        cells = np.broadcast_to(stats.norm.ppf(levels)[:, None, None], (len(levels), *x.shape))
        return Quantiles(cells, RowReport.empty(len(x)))

    monkeypatch.setattr(ensemble, "quantiles", normal_quantiles)
    lower, upper = asked(models).quantiles(X[:2], OBSERVED[:2], (level, 1 - level))
    np.testing.assert_allclose(stats.norm.cdf(lower), level, rtol=0.04)
    np.testing.assert_allclose(lower, -upper, atol=1e-5)


def test_too_few_cells_leave_the_model_linear():
    model = fitted(X[:20], OBSERVED[:20])
    assert model.history == ()
    assert "the model stays linear" in model.events[0]
    last = model.autoencoder.generative.decoder.network.layers[-1]
    assert not np.asarray(last.weight).any()


def test_more_rows_are_learned_from(models):
    more = update_model(models[0], X[:70], OBSERVED[:70], settings=SETTINGS)
    assert int(more.state.step) == int(models[0].state.step) + 2
    assert len(more.history) == len(models[0].history) + 1
    before = models[0].autoencoder.generative.decoder.linear.weight
    assert not np.array_equal(before, more.autoencoder.generative.decoder.linear.weight)


def test_many_rows_leave_no_column_without_a_cell(monkeypatch):
    monkeypatch.setattr(fitting, "CORE_ROWS", 5)
    observed = np.ones((100, 2), dtype=bool)
    observed[:, 1] = False
    observed[77, 1] = True
    rows = fitting._core_rows(observed, jax.random.key(0))
    assert 77 in rows
    assert len(rows) in (5, 6)


def test_the_time_of_the_linear_core_is_part_of_the_time_allowed(monkeypatch):
    now = [1_000.0]

    def slow_core(*arguments, **options):
        now[0] += 30
        return linear_core(*arguments, **options)

    def recorded(*_, settings, **__):
        raise InterruptedError(settings.max_seconds)

    linear_core = fitting.linear_core
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(fitting, "linear_core", slow_core)
    monkeypatch.setattr(fitting, "fit", recorded)
    limited = dataclasses.replace(SETTINGS, max_seconds=50.0)
    with pytest.raises(InterruptedError, match="20.0"):
        fitted(X, OBSERVED, settings=limited)
