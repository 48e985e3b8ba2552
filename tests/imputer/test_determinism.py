"""The same seed gives the same bits, whatever stands beside a row."""

import jax
import numpy as np
import pandas as pd
import pytest

from imputer.libraries import completed_of
from imputer.tables import make, same_bits
from miwae import MIWAEImputer


def test_the_same_seed_gives_the_same_bits(linear):
    frame, imputer = linear
    again = make().fit(frame)
    assert same_bits(again.transform(frame), imputer.transform(frame))
    assert same_bits(again.score_samples(frame), imputer.score_samples(frame))
    for left, right in zip(again.sample(frame, 3), imputer.sample(frame, 3), strict=True):
        assert same_bits(left, right)
    other = make(random_state=1).fit(frame)
    assert not same_bits(other.sample(frame, 1).complete(1), imputer.sample(frame, 1).complete(1))


@pytest.mark.parametrize("which", ["linear", "trained"])
def test_neither_order_nor_neighbours_change_a_bit(which, request):
    frame, imputer = request.getfixturevalue(which)
    frame = frame.iloc[:64]
    completed = imputer.transform(frame)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(frame))
    assert same_bits(imputer.transform(frame.iloc[order]), completed.iloc[order])
    subset = rng.choice(len(frame), 9, replace=False)
    assert same_bits(imputer.transform(frame.iloc[subset]), completed.iloc[subset])
    row = int(np.flatnonzero(frame.isna().any(axis=1))[0])
    assert same_bits(imputer.transform(frame.iloc[[row]]), completed.iloc[[row]])
    scores = imputer.score_samples(frame)
    assert same_bits(imputer.score_samples(frame.iloc[order]), scores[order])
    lower, upper = imputer.interval(frame)
    lower_, upper_ = imputer.interval(frame.iloc[order])
    assert same_bits(lower_, lower.iloc[order])
    assert same_bits(upper_, upper.iloc[order])


def test_mixed_rows_alone_get_the_same_bits():
    frame, imputer, completed = completed_of("pandas, nullable")
    for row in (1, 3, 10):
        pd.testing.assert_frame_equal(
            imputer.transform(frame.iloc[[row]]), completed.iloc[[row]], check_exact=True
        )


def test_the_kind_of_keys_that_jax_makes_by_default_does_not_matter():
    x = np.random.default_rng(0).normal(size=(40, 1)) @ np.ones((1, 3))
    x[0, 0] = np.nan
    expected = MIWAEImputer(max_steps=2, random_state=0).fit_transform(x)
    with jax.default_prng_impl("rbg"):
        completed = MIWAEImputer(max_steps=2, random_state=0).fit_transform(x)
    assert np.array_equal(completed, expected)
