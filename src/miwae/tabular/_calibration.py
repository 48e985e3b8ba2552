"""Probabilities of categories, mixed with their shares as far as held-out cells ask for it."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from miwae.columns import Schema
from miwae.columns.kinds import Coded
from miwae.model import Autoencoder, MixedColumns
from miwae.tabular._fitting import FittedModel
from miwae.tabular._held_out import HeldOut
from miwae.tabular._observation import TableModel

# Parts of the shares in a mixture that are compared.
PARTS = (np.arange(200) + 0.5) / 200


class Mixing(NamedTuple):
    """How the probabilities of one column are mixed with the shares of its levels."""

    column: int  # place among the coded columns
    levels: slice  # of its statistics
    shares: Float[np.ndarray, " V"]
    part: float  # of the shares


def calibrated(
    schema: Schema,
    model: TableModel,
    x: Float[np.ndarray, "N F"],
    observed: Bool[np.ndarray, "N F"],
    models: Sequence[FittedModel],
) -> tuple[FittedModel, ...]:
    """Models whose categories are no more certain than held-out cells show them to be.

    Members whose held-out cells are not known stay as they are.
    """
    held_out = [own.held_out for own in models if own.held_out is not None]
    n_numbers = model.observation.sizes[0]
    mixings = []
    for position, place, levels in zip(
        schema.modelled, model.place.tolist(), model.levels, strict=True
    ):
        if isinstance(schema.columns[position].kind, Coded) and held_out:
            codes = x[observed[:, place], place].astype(int)
            counts = np.bincount(codes, minlength=levels.stop - levels.start) + 0.5
            shares = counts / counts.sum()
            part = _part_of_shares(held_out, place, levels, shares)
            mixings.append(Mixing(place - n_numbers, levels, shares, part))
    return tuple(_mixed(own, mixings, model) for own in models) if mixings else tuple(models)


def _part_of_shares(
    held_out: Sequence[HeldOut], place: int, levels: slice, shares: Float[np.ndarray, " V"]
) -> float:
    """The posterior mean of the part of the shares, all parts being as probable beforehand.

    The probability of a held-out level is `(1 - part) p + part share`. Where few cells are held
    out, half of the prediction is the shares.
    """
    likelihood = np.zeros(len(PARTS))
    for own in held_out:
        rows = own.held_out[:, place]
        codes = own.x[rows, place].astype(int)
        p = own.mean[rows, levels][np.arange(len(codes)), codes]
        mixed = (1 - PARTS) * p[:, None] + PARTS * shares[codes][:, None]
        likelihood += np.log(mixed).sum(axis=0)
    weights = np.exp(likelihood - likelihood.max())
    return float(PARTS @ weights / weights.sum())


def _mixed(own: FittedModel, mixings: Sequence[Mixing], model: TableModel) -> FittedModel:
    state = own.state
    parts = lambda s: (s.autoencoder, s.averaged, s.best)  # noqa: E731
    state = eqx.tree_at(parts, state, tuple(_with(a, mixings, model) for a in parts(state)))
    held_out = own.held_out
    if held_out is not None:
        mean = held_out.mean.copy()
        for one in mixings:
            mean[:, one.levels] = (1 - one.part) * mean[:, one.levels] + one.part * one.shares
        held_out = held_out._replace(mean=mean)
    autoencoder = _with(own.autoencoder, mixings, model)
    return own._replace(autoencoder=autoencoder, state=state, held_out=held_out)


def _with(autoencoder: Autoencoder, mixings: Sequence[Mixing], model: TableModel) -> Autoencoder:
    observation = autoencoder.generative.observation
    assert isinstance(observation, MixedColumns)
    share, slip = (np.array(a) for a in (observation.levels.share, observation.levels.slip))
    first = sum(model.observation.sizes[:2])
    for one in mixings:
        share[one.levels.start - first : one.levels.stop - first] = one.shares
        slip[one.column] = one.part
    arrays = lambda a: (  # noqa: E731
        a.generative.observation.levels.share,
        a.generative.observation.levels.slip,
    )
    return eqx.tree_at(arrays, autoencoder, jax.device_put((share, slip)))
