"""What the page says, and that it says it in one file."""

import json
import re
import struct
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from miwae import SettingsError
from miwae.columns import infer_schema, inspect_columns
from miwae.frames import columns
from miwae.report import _facts, _figures, _page, _sentences
from report.conftest import END, IMAGE, SCRIPT


class Elements(HTMLParser):
    """Names and attributes of all elements of a page."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="session")
def facts(hostile):
    frame, imputer, _ = hostile
    table, own = imputer._fitted.table, columns(frame)
    imputed = table.means(table.encoded(own))
    seen = inspect_columns(own, table.schema)
    return _facts.facts_of(table, own, seen, imputed, title="t", command="c")


def test_the_page_refers_to_nothing_else(hostile):
    *_, report = hostile
    elements = Elements(report.html).found
    assert {tag for tag, _ in elements} >= {"nav", "main", "article", "svg", "img", "table"}
    for tag, attributes in elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert attributes.get("href", "#").startswith("#")
        assert attributes.get("src", "data:").startswith("data:")
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"@import|url\(", report.html)


def test_links_lead_to_elements(hostile):
    *_, report = hostile
    elements = Elements(report.html).found
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for tag, a in elements if tag == "a"} <= set(ids)


def test_every_picture_has_an_alternative_text(hostile):
    *_, report = hostile
    for tag, attributes in Elements(report.html).found:
        if tag == "img":
            assert attributes["alt"]
        if tag == "svg":
            assert attributes.get("aria-label") or attributes["aria-hidden"] == "true"


def test_the_page_has_its_numbers_as_json(hostile):
    frame, _, report = hostile
    (inside,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', report.html
    )
    data = json.loads(inside)
    assert data == report.data
    assert data["n_missing"] == int(frame.isna().sum().sum())
    assert [column["name"] for column in data["columns"]] == list(frame.columns)
    assert data["columns"][2]["quality"]["verdict"] == "good"
    assert data["columns"][2]["n_imputed"] == int(frame[END].isna().sum())
    assert data["versions"]["miwae"]


def test_names_and_cells_are_escaped(hostile):
    *_, report = hostile
    for text in (SCRIPT, IMAGE, END, "<img src=x", "<svg onload"):
        assert text not in report.html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in report.html
    assert [tag for tag, _ in Elements(report.html).found].count("script") == 2


def test_examples_are_the_imputed_cells(hostile):
    frame, imputer, report = hostile
    completed = imputer.transform(frame)
    lower, upper = imputer.interval(frame)
    numbers = report.data["columns"][0]["examples"]
    assert len(numbers) == 4
    for example in numbers:
        row = example["row"]
        assert frame[SCRIPT].isna()[row]
        for key, table in (("value", completed), ("lower", lower), ("upper", upper)):
            assert float(example[key]) == pytest.approx(table[SCRIPT][row], rel=1e-3)
    words = report.data["columns"][1]["examples"]
    assert all(e["value"] == completed[IMAGE][e["row"]] and not e["lower"] for e in words)
    likely = imputer.probabilities(frame)[IMAGE]
    for example in words:
        expected = likely.loc[example["row"]].max()
        assert example["probability"] == pytest.approx(expected, rel=1e-5)
    days = report.data["columns"][3]["examples"]
    assert days[0]["value"] == str(completed["day"][days[0]["row"]].date())


def test_four_sentences_and_what_not_to_trust(facts):
    sentences = _sentences.done(facts)
    assert len(sentences) == 4
    assert sentences[0].startswith("The table has 150 rows and 6 columns;")
    assert "1 latent variable model (trained for 40 steps)" in sentences[1]
    assert "150 cells stay missing" in sentences[2]  # those of the empty column
    assert "missing at random" in sentences[3]
    doubts = _sentences.distrust(facts)
    assert any(doubt.startswith("void: missing cells stay missing") for doubt in doubts)
    column = facts.columns[0]
    poor = {**column.quality, "verdict": "no better than the mean"}
    changed = replace(facts, columns=(replace(column, quality=poor), *facts.columns[1:]))
    assert _sentences.distrust(changed)[0].startswith(f"{SCRIPT}: on held-out cells no better")
    assert (
        "Nothing was imputed; 150 cells"
        in _sentences.done(replace(facts, n_imputed=0, n_missing=150))[2]
    )


def test_what_is_not_known_is_said_of_columns_that_a_model_imputes(facts):
    column = replace(facts.columns[0], quality=None)
    doubts = lambda *own: " ".join(_sentences.distrust(replace(facts, columns=own)))  # noqa: E731
    assert f"{SCRIPT}: no cells were held out, so errors are not known." in doubts(column)
    constant = replace(column, kind="constant")
    assert "held out" not in doubts(constant)
    assert not _sentences.verdicts(replace(facts, columns=(constant,)))


def test_flags_are_shown_as_flags_and_whole_minutes_without_seconds():
    (flag,) = infer_schema(columns(pd.DataFrame({"f": [True, False] * 9}))).columns
    assert flag.kind.levels
    assert [_facts.shown_value(flag, value) for value in (0.0, 1.0)] == ["False", "True"]
    picture = _figures.comparison(flag, np.array([0.0, 1.0, 1.0]), np.array([1.0]))
    assert "False 33% of observed and 0% of imputed cells, True 67%" in picture
    clock = replace(hostile_number(), storage="clock")
    shown = [_facts.shown_value(clock, 3_600 * hours) for hours in (9.5, 12.0, 12.005)]
    assert shown == ["9:30", "12:00", "12:00:18"]


def test_a_complete_table_and_a_model_without_training(hostile):
    frame, imputer, _ = hostile
    report = imputer.report(frame.drop(columns="void").dropna().assign(void=np.nan))
    assert report.data["n_imputed"] == 0
    assert "No row was sampled" in report.html
    assert report.data["weights"] is None


def test_a_hundred_columns_take_less_than_three_megabytes(facts):
    rng = np.random.default_rng(0)
    many = replace(facts, columns=facts.columns[:1] * 100)
    known = hostile_number()
    card = _figures.comparison(known, 1e6 * rng.normal(size=5_000), 1e6 * rng.normal(size=500))
    missing = _figures.matrix(rng.random((5_000, 100)) < 0.5)
    html = _page._rendered(many, [card] * 100, {"matrix": missing, "training": "", "weights": ""})
    assert html.count("<article") == 100
    assert len(html) < 1_000_000


def hostile_number():
    from miwae.columns import ColumnSchema, Scale
    from miwae.columns.kinds import Number

    kind = Number(label="continuous", scale=Scale())
    return ColumnSchema(name="x", kind=kind, reason="", storage="number")


@pytest.mark.parametrize(
    ("roles", "expected"),
    [({}, {"by", "note"}), ({"note": "ignore"}, {"by"}), ({"by": "target"}, {"note"})],
)
def test_only_columns_that_imputation_uses_are_said_to_predict_missing_cells(roles, expected):
    """Of a table of the real sort: comments say why penguins were not measured."""
    by = np.random.default_rng(0).normal(size=200)
    note = np.where(by > 0.5, "not sampled", "sampled")
    frame = pd.DataFrame({"mass": np.where(by > 0.5, np.nan, by**2), "by": by, "note": note})
    own = columns(frame)
    found = _facts._predictors(own, infer_schema(own, roles=roles))
    assert {(pair.first, pair.second) for pair in found} == {("mass", name) for name in expected}


def test_densities_are_drawn_to_scale():
    observed = np.concatenate([np.linspace(0, 1, 500), [10.0]])
    picture = _figures.comparison(hostile_number(), observed, np.full(20, 9.0) + observed[:20])
    places = re.findall(r'class="tick" d="M(\d+),', picture)
    assert len(places) == 20
    assert "density of 501 observed cells of x" in picture


def test_axes_have_round_numbers():
    ticks = lambda *ends: [text for _, text in _figures._ticks(hostile_number(), *ends)]  # noqa: E731
    assert ticks(2556.0, 6444.0) == ["3000", "4000", "5000", "6000"]
    assert ticks(-0.13, 0.41) == ["0.0", "0.2", "0.4"]
    assert ticks(1e-9, 7e-9) == ["2e-09", "4e-09", "6e-09"]
    clock = replace(hostile_number(), storage="clock")
    found = _figures._ticks(clock, 5.2 * 3_600, 20.1 * 3_600)
    assert [text for _, text in found] == ["6:00", "9:00", "12:00", "15:00", "18:00"]
    times = replace(hostile_number(), storage="time")
    assert [text for _, text in _figures._ticks(times, 0.0, 4 * 86_400.0)] == [
        "1970-01-02",
        "1970-01-04",
    ]


def test_the_matrix_is_a_png_of_its_cells():
    missing = np.array([[True, False], [False, False]])
    image = _figures.png(np.where(missing[:, :, None], 255, 0).repeat(3, 2).astype(np.uint8))
    width, height = struct.unpack(">II", image[16:24])
    assert (width, height) == (2, 2)
    start = image.index(b"IDAT") + 4
    length = struct.unpack(">I", image[start - 8 : start - 4])[0]
    lines = zlib.decompress(image[start : start + length])
    assert lines == b"\0" + b"\xff" * 3 + b"\0" * 3 + b"\0" + b"\0" * 6


def test_it_is_saved_and_shows_itself_in_a_notebook(hostile, tmp_path):
    *_, report = hostile
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html
    shown = report._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert [tag for tag, _ in Elements(shown).found] == ["iframe"]
    assert "report.save" in repr(report)


def test_a_page_with_half_a_character_is_saved(tmp_path):
    _page.Report("<p>a\ud800b</p>", {}).save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == rb"<p>a\ud800b</p>"


def test_without_jinja_the_remedy_is_named(hostile, monkeypatch):
    frame, imputer, _ = hostile
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(SettingsError, match=r"pip install 'miwae\[report\]'"):
        imputer.report(frame)
