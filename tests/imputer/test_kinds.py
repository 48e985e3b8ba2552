"""Columns are imputed as what they are taken for."""

import jax
import numpy as np
import pandas as pd
import pytest

from imputer.libraries import is_missing
from imputer.tables import NAN, factor_rows, make, same_bits
from miwae import MIWAEImputer
from miwae.errors import DataWarning


def test_counts_stay_counts():
    rng = np.random.default_rng(0)
    visits = rng.negative_binomial(1, 0.25, size=30).astype(float)
    frame = pd.DataFrame({"visits": visits, "y": visits + rng.normal(size=30)})
    frame.loc[:4, "visits"] = np.nan
    imputer = make().fit(frame)
    assert imputer.schema_.columns[0].kind.label == "count"
    for completed in [imputer.transform(frame), *imputer.sample(frame, 5)]:
        filled = completed.loc[:4, "visits"]
        assert (filled == np.rint(filled)).all()
        assert (filled >= 0).all()


def test_numbers_that_take_few_values_get_means_and_are_drawn_as_they_are(ratings):
    truth, frame, imputer = ratings
    reasons = [known.reason for known in imputer.schema_.columns[1:]]
    assert reasons == [
        "all observed numbers are above 0, from 1 to 3; modelled by its 5 values",
        "numbers from -0.7 to 1.4; modelled by its 2 values",
    ]
    filled, copies = imputer.transform(frame), imputer.sample(frame, 20)
    drawn = np.stack([copy[["stars", "choice"]] for copy in copies])
    for j, name in enumerate(("stars", "choice")):
        hole = frame[name].isna()
        values = np.unique(truth[name])
        # Means lie between the values, draws at them.
        assert filled[name][hole].between(values[0], values[-1]).all()
        assert (~filled[name][hole].isin(values)).mean() > 0.9
        assert np.isin(drawn[:, :, j], values).all()
        # Draws scatter around the mean, within five standard errors for nearly all cells.
        error = drawn[:, hole, j].std(0) / np.sqrt(20) + 0.05
        distance = np.abs(drawn[:, hole, j].mean(0) - filled[name][hole])
        assert (distance < 5 * error).mean() > 0.98
        squared = np.mean((filled[name] - truth[name])[hole] ** 2)
        assert squared < 0.8 * np.mean((frame[name].mean() - truth[name])[hole] ** 2)


def test_other_values_in_a_column_of_few_need_no_other_program(ratings, monkeypatch):
    monkeypatch.setattr("miwae._compilation.ADDED", 1.0)  # programs of other tests stay
    _, frame, _ = ratings
    make(max_steps=300).fit(frame).transform(frame)
    other = frame.assign(stars=1.7 * frame["stars"], choice=-frame["choice"])
    compiled = []

    def listen(event, _, **__):
        compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        make(max_steps=300).fit(other).transform(other)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not [event for event in compiled if "backend_compile" in event]


def test_numbers_that_take_few_values_survive_a_file_and_other_values(ratings, tmp_path):
    _, frame, imputer = ratings
    imputer.save(tmp_path / "model")
    again = MIWAEImputer.load(tmp_path / "model")
    assert again.schema_ == imputer.schema_
    new = frame.iloc[:6].assign(choice=[0.2, 9.0, NAN, -0.7, 1.4, -5.0])
    message = (
        r"column 'choice': the value 0.2 was not seen in fitting \(3 such cells\): kept in the "
        r"table, taken for the nearest known value by the model"
    )
    with pytest.warns(DataWarning, match=message):
        filled = again.transform(new)
    with pytest.warns(DataWarning, match=message):
        assert same_bits(filled, imputer.transform(new))
    assert filled["choice"][[0, 1, 5]].tolist() == [0.2, 9.0, -5.0]
    assert np.isfinite(filled.to_numpy()).all()
    # To the model it is the nearest.
    nearest = new.assign(choice=[-0.7, 1.4, NAN, -0.7, 1.4, -0.7])
    assert same_bits(filled[["quality", "stars"]], again.transform(nearest)[["quality", "stars"]])
    with pytest.warns(DataWarning, match=message):
        assert same_bits(again.score_samples(new), again.score_samples(nearest))


def test_bounds_hold_for_every_draw(linear):
    frame, _ = linear
    low, high = frame["b"].min() - 0.01, frame["b"].max() + 0.01
    top = frame["c"].max() + 0.01
    imputer = make(bounds={"b": (low, high), 2: (None, top)}).fit(frame)
    assert [column.kind.label for column in imputer.schema_.columns] == [
        "continuous",
        "bounded",
        "bounded",
    ]
    lower, upper = imputer.interval(frame, level=0.999)
    for completed in [imputer.transform(frame), lower, upper, *imputer.sample(frame, 20)]:
        assert completed["b"].between(low, high).all()
        assert (completed["c"] <= top).all()


def test_kinds_can_be_given():
    frame = pd.DataFrame(
        {
            "zip": [10, 20, 30, 10, 20, 30, 10, None, 20, 30.0],
            "size": ["S", "M", "L", "S", None, "L", "M", "S", "M", "L"],
            "name": ["ann", "bob", "ann", "bob", None, "ann", "bob", "ann", "bob", "ann"],
        }
    )
    kinds = {"zip": "categorical", "size": "ordinal:S<M<L", "name": "identifier"}
    imputer = make(column_kinds=kinds).fit(frame)
    assert [(c.kind.label, c.reason) for c in imputer.schema_.columns] == [
        ("categorical", "specified by the user"),
        ("ordinal", "specified by the user"),
        ("identifier", "specified by the user"),
    ]
    assert imputer.schema_.columns[1].kind.levels == ("S", "M", "L")
    with pytest.warns(DataWarning, match="'name' is not modelled"):
        completed = imputer.transform(frame)
    assert completed.loc[7, "zip"] in {10.0, 20.0, 30.0}
    assert completed.loc[4, "size"] in {"S", "M", "L"}
    assert is_missing(completed.loc[4, "name"])


def test_a_bound_holds_in_the_precision_of_the_column():
    x = np.array([[0.1], [0.1], [0.05], [0.02], [np.nan]], dtype=np.float32)
    out = make(bounds={0: (0.0, 0.1)}).fit_transform(x)
    assert out[4, 0] <= np.float32(0.1)


def test_one_wild_column_does_not_spoil_the_others():
    rng = np.random.default_rng(4)
    truth = factor_rows(30, 9)[:, :2]
    wild = rng.standard_cauchy(30) * 10.0 ** rng.uniform(0, 6, 30)
    frame = pd.DataFrame({"a": truth[:, 0], "b": truth[:, 1], "wild": wild})
    frame.loc[:4, "b"] = np.nan
    frame.loc[8:10, "wild"] = np.nan
    imputer = make().fit(frame)
    assert imputer.schema_.columns[2].kind.scale.shape == "asinh"
    completed = imputer.transform(frame)
    crude = np.mean((frame["b"].mean() - truth[:5, 1]) ** 2)
    assert np.mean((completed.loc[:4, "b"] - truth[:5, 1]) ** 2) < crude
    # An observed value far outside what was fitted does not break its neighbours either.
    extreme = pd.DataFrame({"a": [1.0], "b": [np.nan], "wild": [1e300]})
    seen = frame["b"].dropna()
    reach = seen.max() - seen.min()
    with pytest.warns(DataWarning, match="the value 1e\\+300 in row 0 is impossible"):
        filled = imputer.transform(extreme).loc[0, "b"]
    assert seen.min() - reach < filled < seen.max() + reach


@pytest.mark.long
def test_a_thousand_levels():
    rng = np.random.default_rng(5)
    levels = [f"level {i}" for i in range(1000)]
    frame = pd.DataFrame({"k": np.repeat(levels, 2), "x": rng.normal(size=2000)})
    frame.loc[::50, "k"] = None
    frame["k"] = frame["k"].astype("category")
    sizes = {"n_latent": 2, "n_hidden": 4, "n_imputation_samples": 20, "n_samples": 1}
    imputer = make(max_steps=1, early_stopping=False, **sizes).fit(frame)
    assert imputer.schema_.columns[0].kind.label == "categorical"
    assert len(imputer.schema_.columns[0].kind.levels) == frame["k"].nunique()
    completed = imputer.transform(frame.iloc[:60])
    assert completed["k"].notna().all()
    assert completed["k"].dtype == frame["k"].dtype


def test_a_constant_column_is_filled_with_its_value(linear):
    frame = linear[0].assign(one=3.25, word="same", day=pd.Timestamp("2020-02-03"))
    frame.loc[[2, 5], ["one", "word", "day"]] = None
    imputer = make().fit(frame)
    completed = imputer.transform(frame)
    assert [c.kind.label for c in imputer.schema_.columns[3:]] == ["constant"] * 3
    assert (completed["one"] == 3.25).all()
    assert (completed["word"] == "same").all()
    assert (completed["day"] == pd.Timestamp("2020-02-03")).all()
    assert same_bits(completed[list("abc")], linear[1].transform(linear[0]))
