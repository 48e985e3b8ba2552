"""Files of arrays: safetensors with a JSON header. Loading a file runs no code from it."""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from miwae._atomic import write_atomically
from miwae._checked import checked
from miwae.errors import FileFormatError
from miwae.training._history import Memory, TrainingRecord
from miwae.training._settings import TrainingSettings
from miwae.training._state import TrainingState

FORMAT = "miwae"
VERSION = "7"

LARGEST_HEADER = 10**8  # bytes; safetensors reads no larger one
CHUNK = 2**20  # bytes that are read at once

# What a header that makes no sense can cause while it is read.
DAMAGE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)


def _is_key(leaf: Any) -> bool:
    return eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _named_arrays(tree: PyTree) -> dict[str, Any]:
    """The arrays of a pytree, named by their path in it, in the order of its leaves."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _as_numpy(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C")


def save_tree(path: str | Path, tree: PyTree, header: dict[str, Any]) -> None:
    """Write the arrays of a pytree and a JSON header to one file, atomically."""
    arrays = {name: _as_numpy(leaf) for name, leaf in _named_arrays(tree).items()}
    metadata = {"format": FORMAT, "version": VERSION, "header": json.dumps(header)}
    data = signed(to_bytes(arrays, metadata))
    write_atomically(str(path), lambda file: file.write(data))


def signed(data: bytes) -> bytes:
    """A safetensors file with the digest of all that it holds among its metadata."""
    length = int.from_bytes(data[:8], "little")
    table, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    digest = _digest(table, [body])
    # The library writes them in another order each time.
    table["__metadata__"] = dict(sorted({**table["__metadata__"], "digest": digest}.items()))
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)  # arrays begin at multiples of eight bytes
    return len(head).to_bytes(8, "little") + head + body


def _digest(table: dict[str, Any], body: Iterable[bytes]) -> str:
    """Of the names, types and places of the arrays, the metadata, and the arrays themselves."""
    metadata = {k: v for k, v in table["__metadata__"].items() if k != "digest"}
    content = {**table, "__metadata__": metadata}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for chunk in body:
        digest.update(chunk)
    return digest.hexdigest()


def _require_intact(path: str | Path) -> None:
    """Refuse a file of which anything has changed since it was written."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(LARGEST_HEADER, os.fstat(file.fileno()).st_size):
            raise FileFormatError(f"{path} is truncated or not a miwae file")
        table = json.loads(file.read(length))
        own = _digest(table, iter(lambda: file.read(CHUNK), b""))
    if table["__metadata__"].get("digest") != own:
        raise FileFormatError(
            f"{path} is damaged: its content is not what was written (the digest differs); copy "
            "or fit it again"
        )


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The file and its header; any error in reading it becomes a `FileFormatError`."""
    if Path(path).is_dir():
        raise FileFormatError(f"{path} is a directory: name a file in it")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise FileFormatError(f"{path} is a safetensors file, but not one of miwae")
            _require_version(path, metadata.get("version"))
            _require_intact(path)
            header = json.loads(metadata["header"])
            if not isinstance(header, dict):
                raise FileFormatError(f"{path} has an invalid header")
            yield file, header
    except FileFormatError:
        raise
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    # A ValueError is bad JSON, bad text, or a number with too many digits.
    except (SafetensorError, MemoryError, *DAMAGE) as error:
        raise FileFormatError(f"{path} is truncated or not a miwae file: {error}") from error


def _require_version(path: str | Path, version: str | None) -> None:
    if version != VERSION:
        raise FileFormatError(
            f"{path} has file format {version}, which this version of miwae does not read (it "
            f"reads format {VERSION}): fit the model again"
        )


def load_header(path: str | Path) -> dict[str, Any]:
    """Read the header of a file, without its arrays; `FileFormatError` if that is impossible."""
    with _opened(path) as (_, header):
        return header


def load_tree(path: str | Path, like: PyTree) -> tuple[PyTree, dict[str, Any]]:
    """The pytree and the header that `save_tree` wrote, or a `FileFormatError`.

    `like` is a pytree with the structure, shapes and types that the file must have.
    """
    with _opened(path) as (file, header):
        expected = _named_arrays(like)
        _check_names(path, set(expected), set(file.keys()))
        loaded = [_restored(path, n, file.get_slice(n), leaf) for n, leaf in expected.items()]
    arrays, static = eqx.partition(like, eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), loaded), static), header


def _check_names(path: str | Path, expected: set[str], found: set[str]) -> None:
    for what, names in (("lacks", expected - found), ("has the unknown", found - expected)):
        if names:
            raise FileFormatError(
                f"{path} belongs to another model: it {what} array {min(names)} "
                f"({len(names)} such arrays)"
            )


def _restored(path: str | Path, name: str, stored: Any, like: Any) -> Any:
    """Read one array; its shape and type must be those of `like`."""
    wanted = _as_numpy(like)
    shape = tuple(stored.get_shape())
    if shape != wanted.shape:
        raise FileFormatError(
            f"{path} belongs to another model: {name} has shape {shape}, expected {wanted.shape}"
        )
    # The library cannot read what is empty.
    array = stored[...] if wanted.size else wanted
    if array.dtype != wanted.dtype:
        raise FileFormatError(f"{path}: {name} has type {array.dtype}, expected {wanted.dtype}")
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(like))
    return jnp.asarray(array)


def save_checkpoint(
    path: Path,
    state: TrainingState,
    settings: TrainingSettings,
    run: tuple[Sequence[TrainingRecord], Memory],
    fingerprint: str,
) -> None:
    """Write all that is needed to continue; `run` is the history and the memory of the guard."""
    history, memory = run
    header = {
        "kind": "checkpoint",
        "fingerprint": fingerprint,
        "settings": dataclasses.asdict(settings),
        "history": [list(record) for record in history],
        "memory": list(memory),
    }
    save_tree(path, state, header)


def load_checkpoint(
    path: Path, like: TrainingState, settings: TrainingSettings, fingerprint: str
) -> tuple[TrainingState, tuple[tuple[TrainingRecord, ...], Memory]]:
    """Read what `save_checkpoint` wrote; refuse a file of another kind, model or run."""
    state, header = load_tree(path, like)
    if header.get("kind") != "checkpoint":
        raise FileFormatError(f"{path} is not a checkpoint")
    if header.get("fingerprint") != fingerprint:
        raise FileFormatError(
            f"{path} is of a run on other data or with another key: use those, or another file"
        )
    require_finite(path, (state.autoencoder, state.averaged, state.best, state.optimizer_state))
    try:
        _require_same(path, dict(header["settings"]), settings)
        best, rollbacks, events = header["memory"]
        memory = checked(Memory, best, rollbacks, tuple(events))
        history = tuple(checked(TrainingRecord, *record) for record in header["history"])
    except DAMAGE as error:
        if isinstance(error, FileFormatError) and str(path) in str(error):
            raise
        raise FileFormatError(f"{path} is damaged: its header makes no sense ({error})") from error
    return state, (history, memory)


def _require_same(path: Path, saved: dict[str, Any], settings: TrainingSettings) -> None:
    """Refuse a checkpoint of a run with other settings than this one."""
    own = dataclasses.asdict(settings)
    may_differ = {"max_seconds", "patience"}
    if settings.schedule == "constant":
        may_differ.add("max_steps")
    for name in own:
        if name not in may_differ and saved.get(name) != own[name]:
            raise FileFormatError(
                f"{path} was written with {name}={saved.get(name)!r}, but this run has "
                f"{name}={own[name]!r}: use the same settings, or another file"
            )


def require_finite(path: str | Path, tree: PyTree) -> None:
    """Refuse weights that are not finite: no run keeps such."""
    for name, leaf in _named_arrays(tree).items():
        inexact = not _is_key(leaf) and jnp.issubdtype(leaf.dtype, jnp.inexact)
        if inexact and not np.isfinite(np.asarray(leaf)).all():
            raise FileFormatError(f"{path} is damaged: {name} has values that are not finite")
