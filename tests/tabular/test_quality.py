"""Quality on held-out cells: against what is known of the table, and as people read it."""

import json

import numpy as np
import pandas as pd
import pytest

from miwae.columns import infer_schema
from miwae.frames import columns
from miwae.tabular import ColumnQuality, EncodedTable, FittedTable, Quality, TableSettings

NOISE = 0.5


@pytest.fixture(scope="module")
def known():
    """A number, its noisy double, a colour that follows it, and two columns on their own."""
    rng = np.random.default_rng(4)
    n = 800
    size = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "size": 100 + 10 * size,
            "double": 200 + 20 * size + 20 * NOISE * rng.normal(size=n),
            "colour": np.where(size + 0.3 * rng.normal(size=n) > 0, "red", "blue"),
            "alone": 5 * rng.normal(size=n),
            "coin": rng.choice(["heads", "tails"], p=[0.7, 0.3], size=n),
            "few": np.where(np.arange(n) < 12, rng.normal(size=n), np.nan),
        }
    )
    frame.loc[:9, ["double", "alone", "coin"]] = None
    own = columns(frame)
    table = EncodedTable.of(infer_schema(own), own)
    settings = TableSettings(n_latent=3, n_hidden=16, n_layers=1, max_steps=150, seed=1)
    return FittedTable.fit(table, settings)


def test_errors_are_those_that_the_table_allows(known):
    """`double` has noise of 10 around its mean given `size`, and a standard deviation of 22.4."""
    own = known.quality["double"]
    n = own.n_held_out
    assert n > 50
    assert abs(own.error - 20 * NOISE) < 4 * 20 * NOISE / np.sqrt(2 * n)
    assert abs(own.error_of_mean - 20 * np.hypot(1, NOISE)) < 4 * 22.4 / np.sqrt(2 * n)
    assert own.relative_error == pytest.approx(own.error / own.error_of_mean)


def test_intervals_cover_at_their_rate(known):
    cells = [(q.coverage, q.n_held_out) for q in known.quality if q.coverage is not None]
    n = sum(count for _, count in cells)
    covered = sum(share * count for share, count in cells) / n
    assert abs(covered - 0.9) < 4 * np.sqrt(0.09 / n)


def test_verdicts_tell_columns_that_follow_from_others(known):
    assert {q.column: q.verdict for q in known.quality} == {
        "size": "good",
        "double": "good",
        "colour": "good",
        "alone": "no better than the mean",
        "coin": "no better than the mode",
        "few": "too few cells",
    }


def test_categories_have_hits_and_log_losses(known):
    colour, coin = known.quality["colour"], known.quality["coin"]
    assert colour.error is None
    assert colour.accuracy > 0.8 > 0.65 > colour.accuracy_of_mode
    assert colour.log_loss < 0.5 < colour.log_loss_of_shares
    assert abs(coin.accuracy_of_mode - 0.7) < 4 * np.sqrt(0.21 / coin.n_held_out)
    assert coin.coverage is None


def test_columns_without_prediction_are_events_if_cells_are_missing(known):
    events = [event for event in known.events if event.about == "quality"]
    assert [event.column for event in events] == ["alone", "coin"]
    assert events[0].count == known.quality["alone"].n_held_out
    assert "no better than the mean" in events[0].text


def test_quality_is_part_of_a_model_file(known, tmp_path):
    known.save(tmp_path / "model")
    loaded, _ = FittedTable.load(tmp_path / "model")
    assert loaded.quality == known.quality


def test_quality_is_a_sequence_that_can_be_read(known):
    quality = known.quality
    assert len(quality) == 6
    assert quality[0].column == "size"
    with pytest.raises(KeyError):
        quality["sise"]
    assert [line.split()[0] for line in str(quality).splitlines()[1:]] == [
        q.column for q in quality
    ]
    assert pd.DataFrame(quality.as_data())["verdict"].tolist()[0] == "good"
    assert json.loads(json.dumps(quality.as_data()))[5]["error"] is None


def test_a_table_without_held_out_cells_has_no_quality(fitted):
    assert not fitted.quality


def test_errors_of_times_have_a_unit():
    own = ColumnQuality("when", "datetime", 50, "weak", error=172_800.0, error_of_mean=259_200.0)
    assert Quality((own,)).rows()[1][2:4] == ("2 days", "3 days")
    event = own._replace(verdict="no better than the mean", error=5_400.0).event()
    assert event is not None
    assert "(error 1.5 hours, of the mean 3 days, on 50 held-out cells)" in event.text


def test_an_event_about_categories_gives_the_reason():
    own = ColumnQuality("sort", "categorical", 50, "no better than the mode", accuracy=0.4)
    own = own._replace(accuracy_of_mode=0.4, log_loss=1.2, log_loss_of_shares=1.1)
    texts = [own._replace(accuracy=hits).event() for hits in (0.4, 0.5)]
    assert [event and event.text[event.text.index("(") :] for event in texts] == [
        "(40% right, the mode 40%, on 50 held-out cells): the other columns say little about it",
        "(log-loss 1.2, of the shares 1.1, on 50 held-out cells): the other columns say little "
        "about it",
    ]
