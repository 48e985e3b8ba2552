import numpy as np
import pytest

from miwae.columns import Cells
from miwae.errors import DataError, SettingsError
from miwae.frames import names
from miwae.pooling import MultiplyImputed, pool

pd = pytest.importorskip("pandas")

HOLES = {"x": [1.0, 2.0, None, 4.0, 5.0], "y": [1.1, None, 2.9, 4.2, 4.8]}
DRAWN = [(2.8, 2.2), (3.3, 1.9), (3.0, 2.5)]


def make_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def make_arrow(columns):
    return pytest.importorskip("pyarrow").table(columns)


def make_numpy(columns):
    return np.column_stack([np.array(cells, dtype=float) for cells in columns.values()])


MAKERS = [pd.DataFrame, make_polars, make_arrow, make_numpy]
every_frame = pytest.mark.parametrize("make", MAKERS, ids=["pandas", "polars", "arrow", "numpy"])


def numbers(rows, values):
    return Cells(np.array(rows), np.array(values, dtype=float))


def draws_of(frame, drawn=DRAWN):
    return MultiplyImputed(frame, [{0: numbers([2], [x]), 1: numbers([1], [y])} for x, y in drawn])


def copy_of(x, y):
    return {"x": [1.0, 2.0, x, 4.0, 5.0], "y": [1.1, y, 2.9, 4.2, 4.8]}


def assert_same(frame, expected):
    assert type(frame) is type(expected)
    if isinstance(frame, pd.DataFrame):
        pd.testing.assert_frame_equal(frame, expected)
    elif isinstance(frame, np.ndarray):
        np.testing.assert_array_equal(frame, expected)
    else:
        assert frame.equals(expected)


@pytest.fixture
def draws():
    return draws_of(pd.DataFrame(HOLES))


@every_frame
def test_copies_are_frames_of_the_users_type(make):
    frame = make(HOLES)
    draws = draws_of(frame)
    assert len(draws) == draws.n_imputations == 3
    assert draws.n_rows == 5
    assert draws.complete(0) is frame
    for copy, drawn in zip(draws, DRAWN, strict=True):
        assert_same(copy, make(copy_of(*drawn)))
    assert_same(frame, make(HOLES))


@every_frame
def test_a_sequence_of_copies_counts_from_zero_and_complete_from_one(make):
    draws = draws_of(make(HOLES))
    for i, drawn in enumerate(DRAWN):
        for copy in (draws[i], draws[i - 3], draws[np.int64(i)], draws.complete(i + 1)):
            assert_same(copy, make(copy_of(*drawn)))
    for part in (slice(1, None), slice(None, None, -1), slice(5, 9)):
        assert isinstance(draws[part], list)
        for copy, drawn in zip(draws[part], DRAWN[part], strict=True):
            assert_same(copy, make(copy_of(*drawn)))
    for outside in (3, -4):
        with pytest.raises(IndexError):
            draws[outside]


@every_frame
def test_the_long_frame_is_the_one_of_mice(make):
    blocks = [HOLES, *(copy_of(*drawn) for drawn in DRAWN)]
    expected = {
        ".imp": [number for number in range(4) for _ in range(5)],
        ".id": [1, 2, 3, 4, 5] * 4,
        "x": [cell for block in blocks for cell in block["x"]],
        "y": [cell for block in blocks for cell in block["y"]],
    }
    draws = draws_of(make(HOLES))
    assert_same(draws.complete("long"), make(expected))
    without = {name: cells[5:] for name, cells in expected.items()}
    assert_same(draws.complete("long", include_original=False), make(without))


@pytest.mark.parametrize("which", [-1, 4, "broad", "1"])
def test_other_copies_do_not_exist(draws, which):
    with pytest.raises(SettingsError, match="long"):
        draws.complete(which)


def test_a_column_named_as_those_of_the_long_format_is_refused():
    frame = pd.DataFrame({".id": [1.0, None]})
    with pytest.raises(DataError, match=r"'\.id' already"):
        MultiplyImputed(frame, [{0: numbers([1], [2])}]).complete("long")


def test_apply_passes_on_its_arguments(draws):
    def cell(frame, name, *, row):
        return frame[name][row]

    assert draws.apply(cell, "x", row=2) == [2.8, 3.3, 3.0]


def test_an_expectation_is_the_mean_over_the_copies(draws):
    found = draws.expectation(lambda frame: frame["x"])
    assert found.shape == (5,)
    assert found[2] == pytest.approx((2.8 + 3.3 + 3.0) / 3)
    with pytest.raises(DataError, match="must return one value for each of the 5 rows"):
        draws.expectation(lambda frame: frame["x"].mean())


def test_the_representation_counts(draws):
    assert repr(draws) == (
        "MultiplyImputed(3 imputations of 2 missing cells in 5 rows and 2 columns)"
    )
    partly = MultiplyImputed(draws.complete(0), [{0: numbers([2], [2])}], not_imputed=["y"])
    assert repr(partly) == (
        "MultiplyImputed(1 imputation of 1 missing cell in 5 rows and 2 columns; not imputed: y)"
    )


def test_no_copies_are_refused(draws):
    with pytest.raises(SettingsError, match="n_imputations"):
        MultiplyImputed(draws.complete(0), [])


@every_frame
def test_pooling_the_copies_themselves_is_refused(make):
    draws = draws_of(make(HOLES))
    for given in (draws, list(draws)):
        with pytest.raises(DataError, match="data, not estimates"):
            pool(given)


@every_frame
def test_fits_do_not_depend_on_the_type_of_frame(make):
    pytest.importorskip("statsmodels")
    draws = draws_of(make(HOLES))
    x, y = names(draws.complete(0))
    lines = [np.polynomial.Polynomial.fit(*copy_of(*d).values(), 1).convert() for d in DRAWN]
    pooled = draws.fit(f"{y} ~ {x}")
    assert pooled.names == ("Intercept", x)
    assert pooled.df_complete == 3
    np.testing.assert_allclose(pooled.estimate, np.mean([line.coef for line in lines], axis=0))


@pytest.mark.parametrize("make", [make_polars, make_arrow], ids=["polars", "arrow"])
def test_the_long_frame_has_the_types_of_the_copies(make):
    drawn = [[1.5, 2.5], [3.5, 4.5]]
    cells = [{0: Cells(np.arange(2), np.array(values), storage="number")} for values in drawn]
    long = MultiplyImputed(make({"x": [None, None]}), cells).complete("long")
    assert_same(long, make({
        ".imp": [0, 0, 1, 1, 2, 2], ".id": [1, 2] * 3, "x": [None, None, *drawn[0], *drawn[1]],
    }))  # fmt: skip
