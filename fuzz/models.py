"""Mutilated model files and checkpoints: each loads with the same bits, or is refused."""

import contextlib
import functools
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from fuzz.campaign import Failure, run
from miwae.columns import Column, infer_schema
from miwae.errors import FileFormatError, MiwaeError
from miwae.model import Normal
from miwae.model._build import dense_autoencoder
from miwae.tabular import EncodedTable, FittedTable, TableSettings
from miwae.training import TrainingSettings, initial_state
from miwae.training._checkpoint import load_checkpoint, save_checkpoint, signed
from miwae.training._history import Memory, TrainingRecord

KEY = jax.random.key(0)
TRAINING = TrainingSettings(max_steps=5, batch_size=8, n_samples=2)

# What an edited header can hold in place of anything else.
HOSTILE = [
    *(None, True, -1, 0, 10**9, 10**400, 1.5, "", "evil", [], {}, [[]], {"float": "nan"}),
    *({"tuple": [1, 2, 3]}, {"dict": [["a", 1]]}, {"float": "inf"}, {"unknown": 1}, "9" * 5000),
]


class Base(NamedTuple):
    """Whole files, and what they hold."""

    folder: Path
    model: bytes
    table: FittedTable
    rows: EncodedTable
    means: bytes
    checkpoint: bytes
    like: Any
    state: Any


@functools.cache
def base() -> Base:
    """A small model and a checkpoint, made once."""
    folder = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 1)) @ np.ones((1, 3)) + 0.3 * rng.normal(size=(30, 3))
    x[::4, 0] = np.nan
    words = np.where(x[:, 2] > 0, 1.0, 0.0)
    columns = [
        Column(name=name, storage="number", values=v, missing=np.isnan(v))
        for name, v in zip("abc", x.T, strict=True)
    ]
    missing = np.arange(30) % 5 == 0
    words = np.where(missing, np.nan, words)
    levels = {"storage": "text", "levels": ("no", "yes"), "typed": False}
    columns.append(Column(name="w", values=words, missing=missing, **levels))
    rows = EncodedTable.of(infer_schema(columns), columns)
    small = TableSettings(n_hidden=4, n_layers=1, n_models=1, n_latent=2, n_imputation_samples=64)
    table = FittedTable.fit(rows, small)
    table.save(folder / "model")
    model = dense_autoencoder(Normal(3), n_latent=2, n_hidden=4, n_layers=1, key=KEY)
    like = initial_state(model, TRAINING, KEY, n_rows=30)
    record = TrainingRecord(1, -3.0, None, None, 1.0, 0.5)
    save_checkpoint(
        folder / "run", like, TRAINING, ((record,), Memory(-3.0, 0, ("once",))), "data"
    )
    return Base(
        folder,
        (folder / "model").read_bytes(),
        table,
        rows,
        _imputed(table, rows),
        (folder / "run").read_bytes(),
        like,
        like,
    )


def _imputed(table: FittedTable, rows: EncodedTable) -> bytes:
    cells = table.means(rows).cells
    return b"".join(repr(cells[position].values.tolist()).encode() for position in cells)


def case(seed: int) -> str:
    """Mutilate a file, and load it."""
    rng, known = np.random.default_rng(seed), base()
    is_model = bool(rng.random() < 0.7)
    data = known.model if is_model else known.checkpoint
    is_signed = bool(rng.random() < 0.4)
    data = signed_edit(data, rng) if is_signed else mutilated(data, rng)
    path = known.folder / "changed"
    path.write_bytes(data)
    try:
        same = _loads_the_same(path, is_model=is_model)
    except FileFormatError:
        return "refused"
    if same:
        return "same"
    if not is_signed:
        raise Failure("another model was loaded in silence")
    return "valid edit"


def _loads_the_same(path: Path, *, is_model: bool) -> bool:
    known = base()
    if not is_model:
        state, _ = load_checkpoint(path, known.like, TRAINING, "data")
        return bool(eqx.tree_equal(state, known.state))
    table, _ = FittedTable.load(path)
    same = (table.schema, table.settings) == (known.table.schema, known.table.settings)
    if same and eqx.tree_equal(table.models[0].autoencoder, known.table.models[0].autoencoder):
        return True
    # A valid edit: it imputes something, or says in an error of ours why not.
    with contextlib.suppress(MiwaeError):
        names = [column.name for column in table.schema.columns]
        table.require_columns(names)
        _imputed(table, EncodedTable.of(table.schema, _columns(known.rows)))
    return False


def _columns(rows: EncodedTable) -> list[Column]:
    """Columns like those that were fitted, for a schema that was edited."""
    out = []
    for known, gap in zip(rows.schema.columns, rows.gaps, strict=True):
        values = np.where(gap.missing, np.nan, 1.0)
        text = {"levels": ("no", "yes")} if known.storage == "text" else {}
        own = {"storage": known.storage, "values": values, "missing": gap.missing, **text}
        out.append(Column(name=known.name, **own))
    return out


def mutilated(data: bytes, rng: np.random.Generator) -> bytes:
    """The file with bits, bytes or blocks changed, as disks and networks do it."""
    out, place = bytearray(data), int(rng.integers(len(data)))
    if rng.random() < 0.4:  # most bytes are arrays, and most interesting ones are not
        place = int(rng.integers(8 + int.from_bytes(data[:8], "little")))
    size = int(2 ** rng.uniform(0, 12))
    match int(rng.integers(8)):
        case 0 | 1:
            out[place] ^= 1 << int(rng.integers(8))
        case 2:
            out[place] = int(rng.integers(256))
        case 3:
            del out[place:]
        case 4:
            del out[place : place + size]
        case 5:
            out[place:place] = rng.bytes(size)
        case 6:
            out[place : place + size] = bytes(min(size, len(out) - place))
        case _:
            other = int(rng.integers(len(data)))
            block = bytes(out[other : other + size])
            out[place : place + len(block)] = block
    return bytes(out)


def signed_edit(data: bytes, rng: np.random.Generator) -> bytes:
    """The file with something else in its header or arrays, and the right digest."""
    length = int.from_bytes(data[:8], "little")
    table, body = json.loads(data[8 : 8 + length]), bytearray(data[8 + length :])
    if rng.random() < 0.2:
        place = 4 * int(rng.integers(len(body) // 4))
        value = rng.choice([np.nan, np.inf, 1e30, -1e-30, 0.0])
        body[place : place + 4] = np.float32(value).tobytes()
    elif rng.random() < 0.1:
        text = bytearray(table["__metadata__"]["header"].encode())
        text[int(rng.integers(len(text)))] = int(rng.integers(32, 127))
        table["__metadata__"]["header"] = text.decode()
    else:
        header = json.loads(table["__metadata__"]["header"])
        _edit(header, rng)
        table["__metadata__"]["header"] = json.dumps(header)
    head = json.dumps(table).encode()
    return signed(len(head).to_bytes(8, "little") + head + bytes(body))


def _edit(value: Any, rng: np.random.Generator) -> None:
    """Replace or remove something, anywhere within a list or dictionary, in place."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = keys[int(rng.integers(len(keys)))]
        inner = value[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            value = inner
            continue
        if rng.random() < 0.15:
            del value[key]
        else:
            value[key] = HOSTILE[int(rng.integers(len(HOSTILE)))]
        return


if __name__ == "__main__":
    run("models", case, 10_000, __doc__ or "", lambda _: base())
