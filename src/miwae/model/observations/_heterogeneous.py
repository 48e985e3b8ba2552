"""Rows whose features are of several kinds."""

import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from miwae._shapes import Drawn, Eta, Means, OneKey, PerSample, Rows, Seen, Statistics
from miwae.errors import SettingsError
from miwae.model.observations._base import AbstractObservation, Linearisation
from miwae.model.observations._shapes import Embedded, Measured, PerInput


class Part(eqx.Module):
    """An observation model and the columns that it describes."""

    observation: AbstractObservation
    columns: tuple[int, ...] = eqx.field(static=True, converter=tuple)


# A part's model, its parameters, and its columns: values, and which were observed.
_Given: TypeAlias = tuple[AbstractObservation, Array, Array, Array]


def _total(of: str) -> Any:
    return property(lambda self: sum(self._widths(of)))


class Heterogeneous(AbstractObservation):
    """Any mixture of kinds, independent of each other given z.

    Parameters, inputs and statistics are those of the parts, one part after the other; features
    keep the order of the columns.

    Examples:
        >>> from miwae.model import Categorical, Normal
        >>> h = Heterogeneous((Part(Normal(2), (0, 2)), Part(Categorical((3,)), (1,))))
        >>> h.n_features, h.n_parameters
        (3, 7)
    """

    parts: tuple[Part, ...]

    def __check_init__(self) -> None:
        columns = sorted(column for part in self.parts for column in part.columns)
        if columns != list(range(len(columns))):
            raise SettingsError(f"the parts must cover each column once, but have {columns}")
        for part in self.parts:
            if part.observation.n_features != len(part.columns):
                raise SettingsError(
                    f"{type(part.observation).__name__} has {part.observation.n_features} "
                    f"features, but was given the columns {part.columns}"
                )

    n_features = _total("n_features")
    n_parameters = _total("n_parameters")
    n_inputs = _total("n_inputs")
    n_statistics = _total("n_statistics")

    def _widths(self, of: str) -> list[int]:
        return [getattr(part.observation, of) for part in self.parts]

    def _split(self, a: Array, of: str) -> list[Array]:
        return jnp.split(a, list(itertools.accumulate(self._widths(of)))[:-1], axis=-1)

    def _given(self, eta: Eta, x: Rows, observed: Seen) -> Iterator[_Given]:
        for part, own in zip(self.parts, self._split(eta, "n_parameters"), strict=True):
            columns = part.columns
            yield part.observation, own, x[:, columns], observed[:, columns]

    def _in_order(self, features: list[Array]) -> Array:
        """Put the features of the parts back into the order of the columns."""
        order = [column for part in self.parts for column in part.columns]
        back = sorted(range(len(order)), key=order.__getitem__)
        return jnp.concatenate(features, axis=-1)[..., jnp.array(back)]

    def supports(self, x: Rows) -> Seen:
        return self._in_order([p.observation.supports(x[:, p.columns]) for p in self.parts])

    def _joined(self, view: str, x: Rows, observed: Seen) -> tuple[Array, Array]:
        parts = [(getattr(part.observation, view), part.columns) for part in self.parts]
        values, seen = zip(*(own(x[:, at], observed[:, at]) for own, at in parts), strict=True)
        return jnp.concatenate(values, -1), jnp.concatenate(seen, -1)

    def embed(self, x: Rows, observed: Seen) -> Embedded:
        return self._joined("embed", x, observed)

    def statistics(self, x: Rows, observed: Seen) -> Measured:
        return self._joined("statistics", x, observed)

    def log_prob(self, eta: Eta, x: Rows, observed: Seen) -> PerSample:
        terms = [own.log_prob(*given) for own, *given in self._given(eta, x, observed)]
        return jnp.sum(jnp.stack(terms), axis=0)

    def mean(self, eta: Eta, x: Rows, observed: Seen) -> Means:
        means = [own.mean(*given) for own, *given in self._given(eta, x, observed)]
        return jnp.concatenate(means, axis=-1)

    def sample(self, eta: Eta, x: Rows, observed: Seen, key: OneKey) -> Drawn:
        keys = jax.random.split(key, len(self.parts))
        given = zip(self._given(eta, x, observed), keys, strict=True)
        draws = [own.sample(eta, x, seen, key) for (own, eta, x, seen), key in given]
        return self._in_order(draws)

    def point(self, mean: Statistics) -> Rows:
        means = zip(self.parts, self._split(mean, "n_statistics"), strict=True)
        return self._in_order([part.observation.point(own) for part, own in means])

    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        means, noises = self._split(mean, "n_inputs"), self._split(noise, "n_inputs")
        given = zip(self.parts, means, noises, strict=True)
        parts = [part.observation.linearise(mean, noise) for part, mean, noise in given]
        slope = jax.scipy.linalg.block_diag(*[part.slope for part in parts])
        return Linearisation(slope, jnp.concatenate([part.offset for part in parts]))
