"""Log-densities of rows, ensembles of models, diagnostics of sampling."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from imputer.tables import CENTRE, CHEAP, COVARIANCE, factor_rows, make, same_bits, with_holes


def gaussian_log_density(x):
    out = np.zeros(len(x))
    for i, row in enumerate(x):
        seen = np.flatnonzero(~np.isnan(row))
        block = COVARIANCE[np.ix_(seen, seen)]
        out[i] = stats.multivariate_normal(CENTRE[seen], block).logpdf(row[seen])
    return out


def test_scores_are_log_densities_in_the_units_of_the_table(trained):
    """Against the truth: 600 rows estimate 9 parameters, about 0.01 nats a row too few."""
    _, imputer = trained
    x = with_holes(factor_rows(400, 14), 0.2, 14)
    scores = imputer.score_samples(pd.DataFrame(x, columns=list("abc")))
    exact = gaussian_log_density(x)
    assert np.mean(scores) == pytest.approx(np.mean(exact), abs=0.1)
    assert np.sqrt(np.mean((scores - exact) ** 2)) < 0.4
    assert imputer.score(pd.DataFrame(x, columns=list("abc"))) == pytest.approx(scores.mean())


@pytest.mark.parametrize(("factor", "tolerance"), [(8.0, 1e-5), (10.0, 0.05)])
def test_a_change_of_units_changes_scores_by_its_logarithm(linear, factor, tolerance):
    """A power of two changes no bit of the standardised table; ten changes the random numbers."""
    frame, imputer = linear
    scaled = frame.assign(a=frame["a"] * factor)
    difference = make().fit(scaled).score_samples(scaled) - imputer.score_samples(frame)
    expected = np.where(frame["a"].isna(), 0.0, -np.log(factor))
    np.testing.assert_allclose(difference, expected, atol=tolerance)


def test_several_models(linear):
    frame, single = linear
    imputer = make(n_models=2).fit(frame)
    assert len(imputer._fitted.table.models) == 2
    completed = imputer.transform(frame)
    holes = frame.isna()
    assert same_bits(completed.to_numpy()[~holes.to_numpy()], frame.to_numpy()[~holes.to_numpy()])
    assert completed.notna().all(axis=None)
    order = np.random.default_rng(1).permutation(len(frame))
    assert same_bits(imputer.transform(frame.iloc[order]), completed.iloc[order])
    draws = imputer.sample(frame, 5)
    assert len(draws) == 5
    copies = np.stack([completed.to_numpy() for completed in draws])
    assert np.isfinite(copies).all()
    assert (np.ptp(copies[:, holes.to_numpy()], axis=0) > 0).all()
    # A mixture of two models of the same rows: its density is near that of one of all rows.
    assert imputer.score(frame) == pytest.approx(single.score(frame), abs=0.5)
    report = imputer.diagnostics(frame)
    assert report.n_samples.max() <= 2 * 2 * CHEAP["n_imputation_samples"]


def test_diagnostics_of_rows(linear):
    frame, imputer = linear
    report = imputer.diagnostics(frame)
    incomplete = frame.isna().any(axis=1).to_numpy()
    assert list(report) == ["n_samples", "effective_sample_size", "pareto_k", "smoothed"]
    assert report.index.equals(frame.index)
    assert (report.n_samples[~incomplete] == 0).all()
    assert (report.n_samples[incomplete] > 0).all()
    assert np.isnan(report.effective_sample_size[~incomplete]).all()
    assert (report.effective_sample_size[incomplete] >= 1).all()
    assert (
        report.effective_sample_size[incomplete] <= report.n_samples[incomplete] * (1 + 1e-6)
    ).all()
    assert report.smoothed.dtype == bool
    assert not report.smoothed[~incomplete].any()
