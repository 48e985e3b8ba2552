"""The recipe for Ray Data in docs/clusters.md, run by Ray, and by a stand-in that calls it so."""

import re
import sys
import textwrap
from itertools import cycle
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.data_sets import completed_by, data_set, digest, saved_model
from miwae.engines import Worker

DOCS = Path(__file__).parents[2] / "docs" / "clusters.md"


class Data:
    """Tables of Arrow, each of which is mapped by an actor: a copy of the class, made once."""

    def __init__(self, tables):
        self.tables = tables

    def map_batches(self, cls, *, fn_constructor_args, batch_format, batch_size, compute):
        assert batch_format == "pyarrow"
        sent = cloudpickle.dumps(cls)
        actors = [cloudpickle.loads(sent)(*fn_constructor_args) for _ in range(compute.size)]
        batches = [
            table.slice(start, batch_size)
            for table in self.tables
            for start in range(0, table.num_rows, batch_size)
        ]
        return Data([actor(batch) for actor, batch in zip(cycle(actors), batches, strict=False)])

    def write_parquet(self, path):
        Path(path).mkdir()
        pq.write_table(pa.concat_tables(self.tables), Path(path) / "all.parquet")


def run_recipe(**changes):
    """The code of the page, with other numbers, and with files by their full names."""
    text = DOCS.read_text(encoding="utf-8")
    found = re.search(r"^    import ray\n.*?(?=^\S)", text, flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    code = textwrap.dedent(found[0])
    for name, value in changes.items():
        code, n_found = re.subn(rf"({name})=\d+", rf"\g<1>={value}", code)
        assert n_found == 1
    for name in ("data/", "model.miwae", "completed/"):
        code = code.replace(f'"{name}"', repr(str(Path(name).resolve())))
    exec(compile(code, "clusters.md", "exec"), {"__name__": "__main__"})


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved_model(Path("model.miwae"))
    return data_set(Path("data"), n_parts=4)


def plain_run(data):
    return pa.concat_tables(completed_by(Worker.load("model.miwae", ["id"]), data))


def test_the_recipe_gives_what_a_plain_run_gives(data, monkeypatch):
    tables = [pq.ParquetFile(file).read() for file in sorted(data.glob("*.parquet"))]
    ray: Any = ModuleType("ray")
    ray.data = SimpleNamespace(
        read_parquet=lambda path: Data(tables), ActorPoolStrategy=SimpleNamespace
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    run_recipe(batch_size=23)
    done = pq.ParquetFile("completed/all.parquet").read()
    assert digest([done]) == digest([plain_run(data)])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # those of Ray
def test_the_recipe_runs_on_ray(data):
    """With one actor, which leaves a core of two to Ray's readers; `make ray` installs Ray."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        run_recipe(**{r"PoolStrategy\(size": 1})
    finally:
        ray.shutdown()
    done = pq.read_table("completed").sort_by("id")
    assert digest([done]) == digest([plain_run(data).sort_by("id")])
