"""Which rows the members of an ensemble learn from, and what they report."""

import equinox as eqx
import jax
import numpy as np
import pytest

from imputer.tables import CHEAP, factor_rows, with_holes
from miwae import frames
from miwae.columns import infer_schema
from miwae.events import Event
from miwae.tabular import EncodedTable, FittedTable, TableSettings
from miwae.tabular._fitted import _of_models
from miwae.tabular._fitting import FittedModel, _rows_of

SIZES = {name: CHEAP[name] for name in ("n_imputation_samples", "n_hidden", "n_layers")}


def test_models_see_all_rows_unless_they_are_bootstrapped():
    observed = np.ones((33, 3), dtype=bool)
    for member in range(2):
        assert np.array_equal(_rows_of(member, observed, TableSettings()), np.arange(33))
    first, second = (_rows_of(i, observed, TableSettings(bootstrap=True)) for i in range(2))
    assert not np.array_equal(first, second)
    for rows in (first, second):
        assert len(rows) == 33
        # A row is left out with probability 1/e.
        assert len(np.unique(rows)) == pytest.approx((1 - np.exp(-1)) * 33, rel=0.15)


def test_a_bootstrap_sample_is_one_also_where_columns_are_many():
    rng = np.random.default_rng(0)
    observed = rng.random((50, 400)) < 0.05
    observed[0] = True
    shares = []
    for seed in range(40):
        rows = _rows_of(0, observed, TableSettings(bootstrap=True, seed=seed))
        assert observed[rows].any(axis=0).all()
        shares.append(len(np.unique(rows)) / 50)
    assert np.mean(shares) < 0.75  # 0.632, and what columns that no row showed add to it


def test_several_models_trained_side_by_side_are_those_trained_alone(monkeypatch):
    columns = frames.columns(with_holes(factor_rows(600, 2), 0.15, 2))
    table = EncodedTable.of(infer_schema(columns), columns)
    settings = TableSettings(**SIZES, n_models=2, bootstrap=True, max_steps=20)
    together = FittedTable.fit(table, settings)
    alone = lambda tasks: [task(lambda: None) for task in tasks]  # noqa: E731
    monkeypatch.setattr("miwae.tabular._fitting.side_by_side", alone)
    one_by_one = FittedTable.fit(table, settings)
    weights = lambda model: jax.tree.leaves(eqx.filter(model.autoencoder, eqx.is_array))  # noqa: E731
    for left, right in zip(together.models, one_by_one.models, strict=True):
        assert left.history[-1].step == 20
        assert all(map(np.array_equal, weights(left), weights(right)))
    first, second = (weights(model) for model in together.models)
    assert not all(map(np.array_equal, first, second))


@pytest.mark.parametrize(
    ("reported", "texts"),
    [([("a", "b"), ("a", "c")], ["a", "model 1 of 2: b", "model 2 of 2: c"]), ([("a",)], ["a"])],
)
def test_events_of_some_models_say_of_which(reported, texts):
    nothing: tuple = (None, None)
    models = [FittedModel._make((*nothing, (), own, None)) for own in reported]
    assert _of_models(models) == [Event("training", None, 1, text) for text in texts]
