"""A model that completes a table part by part: Arrow in, Arrow out, in the same types for all."""

import functools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa

from miwae import frames
from miwae._atomic import scratch_directory
from miwae._threads import require_own_process
from miwae.columns import Column, check_names
from miwae.engines._types import in_type, pc, schema_of
from miwae.errors import DataError, FileFormatError
from miwae.events import Event
from miwae.tabular import EncodedTable, FittedTable, Imputed

# What is completed at once, where parts come one after the other: incomplete rows, of which fewer
# would leave the lanes of the sampler empty, or bytes, in tables with few holes.
FULL_ROWS, FULL_BYTES = 2**13, 2**26

# Parts of one process are completed one after the other: each uses all cores.
_TURN = threading.Lock()


class CompletedPart(NamedTuple):
    table: pa.Table
    events: tuple[Event, ...]


@final
@dataclass(frozen=True, eq=False)
class Worker:
    """What each process of a cluster has: a model, loaded once, and how it treats parts.

    A part may be empty, and have its columns in another order, without values, or in other types
    that hold the same values. What comes out is what `MIWAEImputer.transform` makes of it, after
    the columns of `keys`, which are carried along; the types are always those of `schema`.
    """

    fitted: FittedTable
    extra: Mapping[str, Any] = field(default_factory=dict)  # what an imputer saved with it
    keys: tuple[str, ...] = ()  # columns that the model does not know

    @classmethod
    def load(cls, model: str | Path | bytes, keys: Iterable[str] = ()) -> "Worker":
        """The worker of a model file, or of the content of one; read once in each process."""
        content = model if isinstance(model, bytes) else Path(model).read_bytes()
        return cls(*_loaded(content), tuple(keys))

    @classmethod
    def of(cls, model: Any, keys: Iterable[str] = ()) -> "Worker":
        """The worker of a model file, or of whatever can be saved as one: an imputer, a table."""
        if isinstance(model, str | Path):
            return cls.load(model, keys)
        with scratch_directory() as directory:
            model.save(Path(directory) / "model")
            return cls.load(Path(directory) / "model", keys)

    def __reduce__(self) -> tuple[Any, ...]:
        # A function of the module, which cloudpickle sends by its name; methods it sends as code.
        return _sent, (self.content, self.keys)

    @functools.cached_property
    def content(self) -> bytes:
        """That of a model file."""
        with scratch_directory() as directory:
            path = Path(directory) / "model"
            self.fitted.save(path, dict(self.extra))
            return path.read_bytes()

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """The types of completed parts, without their keys."""
        known = schema_of(self.fitted.schema, self.fitted.arrow)
        kept = [known.field(position) for position in self._kept]
        return pa.schema([*kept, *(pa.field(name, pa.bool_()) for name in self._flags)])

    def __call__(self, part: Any) -> pa.Table:
        """A table or record batch completed."""
        return self.complete(part).table

    def complete(self, part: Any, first_row: int = 0) -> CompletedPart:
        """A table or record batch completed, and what happened, with rows counted from the first.

        Raises:
            DataError: it lacks a column, has an unknown one, or values of another type.
        """
        return self._completed(self._aligned(part), first_row)

    def complete_columns(self, columns: Sequence[Column]) -> Imputed:
        """The missing cells of columns, such as those of a document, and what happened."""
        with _TURN:
            return self._imputed(columns)[1]

    def stream(self, parts: Iterable[Any], first_row: int = 0) -> Iterator[CompletedPart]:
        """Parts completed, in order, several or a piece of one at a time.

        As many as have enough incomplete rows to be worth it: complete rows cost nothing.
        """
        held: list[pa.Table] = []
        n_rows = n_bytes = 0
        for piece in self._pieces(parts):
            held.append(piece)
            n_rows += self._n_incomplete(piece)
            n_bytes += piece.nbytes
            if n_rows >= FULL_ROWS or n_bytes >= FULL_BYTES:
                table = pa.concat_tables(held)
                yield self._completed(table, first_row)
                first_row += table.num_rows
                held, n_rows, n_bytes = [], 0, 0
        if held:
            yield self._completed(pa.concat_tables(held), first_row)

    def _pieces(self, parts: Iterable[Any]) -> Iterator[pa.Table]:
        for part in parts:
            table = self._aligned(part)
            rows = max(FULL_BYTES * table.num_rows // max(table.nbytes, 1), 1)
            for start in range(0, max(table.num_rows, 1), rows):
                yield table.slice(start, rows)

    def _aligned(self, part: Any) -> pa.Table:
        """The keys, and the columns of the model in its order and in its types."""
        table = part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
        check_names(table.column_names)
        keys = [name for name in self.keys if name not in self._names]
        if absent := [name for name in keys if name not in table.column_names]:
            raise DataError(f"the table lacks the key {', '.join(absent)}")
        own = table.drop_columns(keys)
        if not self._named and own.num_columns == len(self._names):
            own = own.rename_columns(self._names)
        if set(own.column_names) == set(self._names):
            own = own.select(self._names)
        self._require_columns(own.column_names)
        known = schema_of(self.fitted.schema, self.fitted.arrow)
        columns = [
            in_type(array, wanted, column)
            for array, wanted, column in zip(
                own.columns, known.types, self.fitted.schema.columns, strict=True
            )
        ]
        return pa.table([*(table[k] for k in keys), *columns], names=[*keys, *self._names])

    def _require_columns(self, names: list[str]) -> None:
        further = [name for name in names if name not in self._names]
        try:
            self.fitted.require_columns(names, named=self._named)
        except DataError as error:
            raise DataError(
                f"{error}; keys={further!r} carries unknown columns along" if further else error
            ) from error

    def _completed(self, table: pa.Table, first_row: int) -> CompletedPart:
        n_keys = table.num_columns - len(self._names)
        own, keys = table.select(self._names), table.select(range(n_keys))
        events: tuple[Event, ...] = ()
        flags = {name: pa.array([], pa.bool_()) for name in self._flags}
        if table.num_rows:
            with _TURN:
                own, events, flags = self._filled(own, first_row)
        kept = [own.column(i) for i in self._kept]
        done = pa.table([*kept, *flags.values()], names=[*self.schema.names]).cast(self.schema)
        return CompletedPart(
            pa.table(
                [*keys.columns, *done.columns], names=[*keys.column_names, *done.column_names]
            ),
            events,
        )

    def _filled(
        self, own: pa.Table, first_row: int
    ) -> tuple[pa.Table, tuple[Event, ...], dict[str, Any]]:
        place = lambda i: f"row {first_row + i}"  # noqa: E731
        columns = frames.columns(own, self.fitted.marks)
        encoded, imputed = self._imputed([replace(column, place=place) for column in columns])
        flags = {
            name: pa.array(encoded.gaps[position].missing)
            for name, position in self._flags.items()
        }
        return frames.completed(own, imputed.cells), imputed.events, flags

    def _imputed(self, columns: Sequence[Column]) -> tuple[EncodedTable, Imputed]:
        require_own_process()
        encoded = self.fitted.encoded(columns, zeros_if_empty=self._zeros)
        imputed = self.fitted.means(encoded)
        return encoded, imputed._replace(events=(*encoded.events, *imputed.events))

    def _n_incomplete(self, table: pa.Table) -> int:
        """Rows in which something is missing, but for values that mean it."""
        missing = pa.array(np.zeros(table.num_rows, dtype=bool))
        for position in self.fitted.schema.modelled:
            if self.fitted.schema.columns[position].role != "predictor":
                column = table.column(self._names[position])
                missing = pc.or_(missing, pc.is_null(column, nan_is_null=True))
        return pc.sum(missing).as_py() or 0

    @property
    def _names(self) -> list[str]:
        return list(self.fitted.schema.names)

    @property
    def _named(self) -> bool:
        return bool(self.extra.get("named", True))

    @property
    def _parameters(self) -> Mapping[str, Any]:
        """Those of an imputer; the command line, which has none, keeps empty columns."""
        return self.extra.get("parameters", {})

    @property
    def _zeros(self) -> bool:
        return bool(self._parameters.get("keep_empty_features", False))

    @property
    def _kept(self) -> list[int]:
        """Positions of the columns that come out."""
        dropped = self.fitted.schema.empty if self._parameters and not self._zeros else ()
        return [i for i in range(len(self._names)) if i not in dropped]

    @property
    def _flags(self) -> dict[str, int]:
        """The indicators of missing cells that come out, and the positions that they are of."""
        flagged = self.fitted.incomplete if self._parameters.get("add_indicator") else ()
        return {f"missingindicator_{self._names[i]}": i for i in flagged}


def _sent(content: bytes, keys: tuple[str, ...]) -> Worker:
    return Worker.load(content, keys)


@functools.lru_cache(maxsize=2)
def _loaded(content: bytes) -> tuple[FittedTable, dict[str, Any]]:
    with scratch_directory() as directory:
        path = Path(directory) / "model"
        path.write_bytes(content)
        fitted, extra = FittedTable.load(path)
    _require_flags(extra)
    return fitted, extra


def _require_flags(extra: Mapping[str, Any]) -> None:
    """Refuse what an imputer would not have saved, of what is read here."""
    parameters = extra.get("parameters", {})
    flags = [extra.get("named", True)]
    if isinstance(parameters, Mapping):
        flags += [parameters.get(n, False) for n in ("keep_empty_features", "add_indicator")]
    if not isinstance(parameters, Mapping) or not all(isinstance(f, int) for f in flags):
        raise FileFormatError("the model is damaged: its parameters make no sense")
