"""Parts of different width are refused where they meet, by name and number."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae.errors import DataError, SettingsError
from miwae.inference._imputation import impute_single
from miwae.inference._weights import draw
from miwae.model import Normal
from miwae.model._amortizers import Amortizer, LinearAmortizer
from miwae.model._build import linear_autoencoder
from miwae.model._fill import MeanFill, ZeroFill
from miwae.model._latent import Autoencoder, LatentModel
from miwae.model._linear import FactorAnalysis
from miwae.model._posteriors import FullNormalPosterior, StudentTPosterior
from miwae.model._priors import StandardNormal, VampPrior
from miwae.training import TrainingSettings, fit

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)


class Affine(eqx.Module):
    """A network that nobody here has heard of."""

    weight: jax.Array

    def __init__(self, n_in, n_out):
        self.weight = jnp.full((n_in, n_out), 0.1)

    def __call__(self, a):
        return a @ self.weight


PARTS = {
    "prior": StandardNormal(2),
    "decoder": Affine(2, 6),
    "fill": ZeroFill(),
    "encoder": Affine(3, 6),
    "posterior": StudentTPosterior(2),
    "indicator": False,
}


def model(**others):
    prior, decoder, *rest = {**PARTS, **others}.values()
    return Autoencoder(LatentModel(prior, decoder, Normal(3)), Amortizer(*rest))


def drawn(autoencoder):
    seen = jnp.ones(X.shape, dtype=bool)
    return eqx.filter_eval_shape(lambda: draw(autoencoder, jnp.asarray(X), seen, KEY, 4))


def test_parts_that_fit_pass():
    assert drawn(model()).z.shape == (4, 9, 2)
    assert drawn(model(encoder=Affine(6, 6), indicator=True)).z.shape == (4, 9, 2)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"decoder": Affine(5, 6)},
            "the decoder Affine fails on the 2 dimensions of a latent sample: ",
        ),
        (
            {"decoder": Affine(2, 5)},
            "the output of the decoder Affine has width 5, but Normal of 3 features needs 6",
        ),
        # Twice as wide would be split without a word.
        ({"decoder": Affine(2, 12)}, "decoder Affine has width 12, but Normal of 3 features need"),
        ({"encoder": Affine(4, 6)}, "the encoder Affine fails on the 3 inputs of a row: "),
        ({"indicator": True}, "the encoder Affine fails on the 6 inputs and indicators of a row:"),
        (
            {"encoder": Affine(3, 9)},
            r"the output of the encoder Affine has width 9, but StudentTPosterior\(2\) needs 6",
        ),
        (
            {"posterior": FullNormalPosterior(2)},
            r"encoder Affine has width 6, but FullNormalPosterior\(2\) needs 5",
        ),
        ({"fill": MeanFill(jnp.zeros(2))}, "the fill MeanFill fails on the 3 inputs of a row: "),
        # A sum over the dimensions of a latent sample does not mind how many there are.
        (
            {"prior": StandardNormal(4)},
            "a latent sample of the proposal has width 2, but the prior StandardNormal needs 4",
        ),
        (
            {"prior": VampPrior(2, jnp.zeros((5, 4)))},
            "the amortizer Amortizer fails on the 4 numbers of a pseudo-input of VampPrior: ",
        ),
    ],
)
def test_parts_that_do_not_fit_are_named(parts, message):
    with pytest.raises(SettingsError, match=message):
        drawn(model(**parts))


def test_a_linear_core_of_other_width_is_named():
    core = FactorAnalysis(jnp.ones((3, 2)), jnp.zeros(3), jnp.ones(3))
    right = linear_autoencoder(Normal(3), core, n_hidden=4, n_layers=1, key=KEY)
    encoder = right.amortizer.encoder
    drawn(right)
    wide = FactorAnalysis(jnp.ones((4, 2)), jnp.zeros(4), jnp.ones(4))
    for amortizer, message in (
        (LinearAmortizer(wide, ZeroFill(), encoder), "of inputs has width 3, but the linear core"),
        (LinearAmortizer(core, ZeroFill(), Affine(8, 5)), "has width 5, but the linear core's pr"),
        (LinearAmortizer(core, ZeroFill(), Affine(7, 6)), "Affine fails on the 8 inputs, indicat"),
    ):
        with pytest.raises(SettingsError, match=message):
            drawn(Autoencoder(right.generative, amortizer))


def test_training_and_imputing_say_so():
    x = X.copy()
    x[0, 0] = np.nan
    wrong = model(decoder=Affine(2, 5))
    with pytest.raises(SettingsError, match="decoder Affine has width 5"):
        fit(wrong, x, settings=TrainingSettings(max_steps=1), key=KEY)
    with pytest.raises(SettingsError, match="decoder Affine has width 5"):
        impute_single(wrong, x, key=KEY)
    with pytest.raises(SettingsError, match="decoder Affine has width 5"):
        wrong.generate(KEY, 2)
    with pytest.raises(DataError, match="the model has 3 features, but x has 2 columns"):
        impute_single(model(), x[:, :2], key=KEY)
