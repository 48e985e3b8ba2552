"""From file to file: one reading, one parse of each column, one inference, one encoding."""

import functools
import sys

import pytest

from cli.runs import written
from miwae.cli import main

TABLE = b"x,y,word\n" + b"".join(b"%d,%d.5,%s\n" % (i, i, b"ab"[i % 2 :][:1]) for i in range(12))
INCOMPLETE = TABLE + b",3.5,a\n4,,b\n5,5.5,\n"


def counted(patch, counts, owner, name):
    """Count the calls of a function, a method or a class method."""
    found = owner.__dict__[name]
    is_class_method = isinstance(found, classmethod)
    function = found.__func__ if is_class_method else found

    @functools.wraps(function)
    def counting(*arguments, **options):
        counts[name] = counts.get(name, 0) + 1
        return function(*arguments, **options)

    patch.setattr(owner, name, classmethod(counting) if is_class_method else counting)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command in this process; how often each step was taken, and the file it wrote."""
    from miwae.cli import _source
    from miwae.documents import _files, _text
    from miwae.tabular import EncodedTable, FittedTable

    table = written(tmp_path / "in.csv", INCOMPLETE)
    monkeypatch.chdir(tmp_path)
    # A setting of the whole process, which is not only ours.
    monkeypatch.setattr("miwae.cli._commands.keep_programs", lambda: None)

    def ran(*arguments):
        counts = {}
        with monkeypatch.context() as patch:
            for owner, name in (
                (_files, "_content"),
                (_source, "open_document"),
                (_text.TextDocument, "read"),
                (_text, "plain_numbers"),
                (_text, "parse_column"),
                (_source, "infer_schema"),
                (EncodedTable, "of"),
                (FittedTable, "fit"),
                (FittedTable, "means"),
                (FittedTable, "draws"),
            ):
                counted(patch, counts, owner, name)
            patch.setattr(sys, "argv", ["miwae", arguments[0], str(table), *arguments[1:]])
            with pytest.raises(SystemExit) as stop:
                main()
        assert not stop.value.code
        return counts

    return ran


READ = {"_content": 1, "open_document": 1, "read": 1, "of": 1}
READ |= {"plain_numbers": 3, "parse_column": 1}  # of three columns, one is of words


def test_each_step_is_taken_once(run, tmp_path):
    fitted = run("fit", "-o", "model", "--n-models", "1", "-q")
    assert fitted == {**READ, "infer_schema": 1, "fit": 1}
    without_model = run("impute", "-o", "out.csv", "--n-models", "1", "--json")
    assert without_model == {**READ, "infer_schema": 1, "fit": 1, "means": 1}
    with_model = run("impute", "-o", "again.csv", "--model", "model", "--json")
    assert with_model == {**READ, "means": 1}
    copies = run("impute", "-o", "copies.csv", "--model", "model", "-m", "2", "-q")
    assert copies == {**READ, "draws": 1}
    scores = run("score", "-o", "scores.csv", "--model", "model", "-q")
    assert scores == READ
    inspection = run("inspect")
    assert inspection == {key: READ[key] for key in READ if key != "of"} | {"infer_schema": 1}
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
