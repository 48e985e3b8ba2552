"""The recipe for Ray Data in docs/clusters.md, run by a stand-in that calls it as Ray does."""

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


def test_the_recipe_gives_what_a_plain_run_gives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved_model(Path("model.miwae"))
    data = data_set(Path("data"), n_parts=4)
    tables = [pq.ParquetFile(file).read() for file in sorted(data.glob("*.parquet"))]
    ray: Any = ModuleType("ray")
    ray.data = SimpleNamespace(
        read_parquet=lambda path: Data(tables), ActorPoolStrategy=SimpleNamespace
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    text = DOCS.read_text(encoding="utf-8")
    found = re.search(r"^    import ray\n.*?(?=^\S)", text, flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    recipe = textwrap.dedent(found[0]).replace("batch_size=8192", "batch_size=23")
    exec(compile(recipe, "clusters.md", "exec"), {"__name__": "__main__"})
    done = pq.ParquetFile("completed/all.parquet").read()
    expected = pa.concat_tables(completed_by(Worker.load("model.miwae", ["id"]), data))
    assert digest([done]) == digest([expected])
