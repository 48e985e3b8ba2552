"""`miwae demo`."""

import os

import pytest

from cli.runs import assert_fails, cells, miwae, succeeded, written


@pytest.mark.long
def test_the_demo_ends_with_three_files(tmp_path):
    run = succeeded(miwae("demo", "-o", tmp_path / "demo"))
    names = ["completed.csv", "penguins.csv", "penguins.miwae"]
    assert sorted(os.listdir(tmp_path / "demo")) == names
    assert [n for n in names if str(tmp_path / "demo" / n) not in run.stdout.decode()] == []
    assert "90 % interval" in run.stdout.decode()
    before, after = (
        cells((tmp_path / "demo" / name).read_bytes()) for name in ("penguins.csv", names[0])
    )
    pairs = [
        (was, now)
        for old, new in zip(before, after, strict=True)
        for was, now in zip(old, new, strict=True)
    ]
    missing = [now for was, now in pairs if was in ("", "NA")]
    assert len(missing) == 19
    assert not {"", "NA"} & set(missing)
    assert all(now == was for was, now in pairs if was not in ("", "NA"))


def test_a_demo_directory_that_is_a_file_is_named(tmp_path):
    place = written(tmp_path / "file", b"")
    assert_fails(miwae("demo", "-o", place), 1, str(place))
