"""Tables of constructors that the contract tests run over, and the exceptions with their reasons.

A new observation model, family, prior or fill becomes subject to its contract by a line here.
"""

# pyright: reportCallIssue=false
# Equinox's abstract fields count as constructor arguments for pyright where a property overrides
# them, as in Categorical, Heterogeneous and MixturePosterior.

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from miwae.model import (
    AbstractObservation,
    Bernoulli,
    Categorical,
    Coded,
    Count,
    Dense,
    Heterogeneous,
    LowRankNormal,
    MixedColumns,
    Normal,
    Ordinal,
    Part,
    Positive,
    Stretch,
    StudentT,
)
from miwae.model._amortizers import AbstractAmortizer, Amortizer
from miwae.model._fill import AbstractFill, LearnedFill, MeanFill, OracleFill, ZeroFill
from miwae.model._posteriors import (
    AbstractPosterior,
    FlowPosterior,
    FullNormalPosterior,
    FullStudentTPosterior,
    MixturePosterior,
    NormalPosterior,
    StudentTPosterior,
)
from miwae.model._priors import AbstractPrior, FlowPrior, MixturePrior, StandardNormal, VampPrior
from miwae.model._proposals import AbstractProposal, LinearProposal

__all__ = [
    "DEPENDENT_FEATURES",
    "FILLS",
    "N_FEATURES",
    "N_LATENT",
    "N_ROWS",
    "OBSERVATIONS",
    "POSTERIORS",
    "PRIORS",
    "PROPOSALS",
    "READS_MISSING_CELLS",
    "SIZES",
    "kappa_of",
    "possible_rows",
    "prior_amortizer",
]

# One width for all, so that compiled helpers are shared.
N_FEATURES = 4
N_LATENT = 2
N_ROWS = 3
SIZES = (2, 4, 3, 3)  # of coded columns: not all the same, and the largest not first

STRETCHES = (  # logarithms and inverse hyperbolic sines, limits out of the way
    Stretch(1.0, 0.0, 0.5, 0.3, -50.0, 50.0),
    Stretch(0.7, -0.7, 0.4, 0.0, -50.0, 50.0),
    Stretch(2.0, 0.0, 1.0, -0.2, -50.0, 50.0),
    Stretch(0.2, -0.2, 0.8, 0.5, -50.0, 50.0),
)

# Values that are whole, as SciPy's discrete distributions want them.
CODED = (
    Coded("category", range(2), (0.5, 0.5)),
    Coded("points", (0.0, 1.0, 2.0, 5.0), (0.1, 0.2, 0.3, 0.4)),
    Coded("ordinal", range(3), (0.2, 0.5, 0.3)),
    Coded("category", range(3), (0.3, 0.3, 0.4)),
)

OBSERVATIONS: dict[str, Callable[[], AbstractObservation]] = {
    "normal": lambda: Normal(N_FEATURES),
    "student_t": lambda: StudentT(N_FEATURES),
    "positive": lambda: Positive(N_FEATURES),
    "low_rank_normal": lambda: LowRankNormal(N_FEATURES, rank=2),
    "bernoulli": lambda: Bernoulli(N_FEATURES),
    "count": lambda: Count(N_FEATURES),
    "categorical": lambda: Categorical(SIZES),
    "ordinal": lambda: Ordinal(SIZES),
    # Columns neither sorted within a part nor between parts.
    "heterogeneous": lambda: Heterogeneous(
        (Part(Normal(2), (3, 0)), Part(Ordinal((3,)), (2,)), Part(Count(1), (1,)))
    ),
    # Of the size `int`: without any that pad.
    "columns_of_numbers": lambda: MixedColumns.of(
        [None, STRETCHES[0], None, STRETCHES[1]], [], 0, size=int
    ),
    "columns_of_levels": lambda: MixedColumns.of([], CODED, 0, size=int),
    "columns_of_counts": lambda: MixedColumns.of([], [], N_FEATURES, size=int),
}

# Exceptions to "log_prob is a sum over cells".
DEPENDENT_FEATURES = {"low_rank_normal": "its features share a factor given z: that is its point"}

POSTERIORS: dict[str, Callable[[], AbstractPosterior]] = {
    "normal": lambda: NormalPosterior(N_LATENT),
    "student_t": lambda: StudentTPosterior(N_LATENT),
    "full_normal": lambda: FullNormalPosterior(N_LATENT),
    "full_student_t": lambda: FullStudentTPosterior(N_LATENT),
    "mixture": lambda: MixturePosterior(NormalPosterior(N_LATENT), 2),
    "mixture_of_student_t": lambda: MixturePosterior(StudentTPosterior(N_LATENT), 3),
    "flow": lambda: FlowPosterior(
        N_LATENT, n_context=2, n_flow_layers=2, n_hidden=4, key=jax.random.key(1)
    ),
}


Family = tuple[Callable[[jax.Array], AbstractProposal], jax.Array]


def kappa_of(n_parameters: int) -> jax.Array:
    """Parameters of order one: locations within two units, scales from 0.2 to 2."""
    return jax.random.normal(jax.random.key(7), (N_ROWS, n_parameters))


def _affine_student_t(kappa: jax.Array) -> AbstractProposal:
    centre, delta, raw, tail = jnp.split(kappa, 4, axis=-1)
    cholesky = jnp.tile(jnp.array([[1.4, 0.0], [-0.6, 0.9]])[None], (kappa.shape[0], 1, 1))
    inverse, scale = jnp.linalg.inv(cholesky), jnp.exp(0.5 * raw)
    return LinearProposal(centre, cholesky, inverse, delta, scale, 3.0 + jnp.exp(tail))


def _of_family(make: Callable[[], AbstractPosterior]) -> Callable[[], Family]:
    def family() -> Family:
        posterior = make()
        return posterior, kappa_of(posterior.n_parameters)

    return family


# A function from parameters (B, Q) to the proposals of B rows, and parameters for N_ROWS rows: one
# of each family, and the proposal that no family makes.
PROPOSALS: dict[str, Callable[[], Family]] = {
    **{name: _of_family(make) for name, make in POSTERIORS.items()},
    "affine_student_t": lambda: (_affine_student_t, kappa_of(4 * N_LATENT)),
}


def prior_amortizer() -> AbstractAmortizer:
    """The amortizer that a VampPrior asks: a tanh network with a diagonal normal behind it."""
    posterior = NormalPosterior(N_LATENT)
    encoder = Dense(3, posterior.n_parameters, n_hidden=5, n_layers=1, key=jax.random.key(3))
    return Amortizer(ZeroFill(), encoder, posterior)


def _mixture_prior() -> AbstractPrior:
    prior = MixturePrior(N_LATENT, n_components=3, key=jax.random.key(2))
    # As after training: neither equal shares nor unit scales.
    return eqx.tree_at(
        lambda p: (p.log_scale, p.logits),
        prior,
        (0.4 * jax.random.normal(jax.random.key(4), (3, N_LATENT)), jnp.array([0.3, -0.8, 1.0])),
    )


PRIORS: dict[str, Callable[[], AbstractPrior]] = {
    "standard_normal": lambda: StandardNormal(N_LATENT),
    "mixture": _mixture_prior,
    "vamp": lambda: VampPrior(N_LATENT, jax.random.normal(jax.random.key(6), (4, 3))),
    "flow": lambda: FlowPrior(N_LATENT, n_flow_layers=2, n_hidden=4, key=jax.random.key(8)),
}

FILLS: dict[str, Callable[[], AbstractFill]] = {
    "zero": ZeroFill,
    "mean": lambda: MeanFill(jnp.array([0.5, -1.0, 2.0, 0.25])),
    "learned": lambda: LearnedFill(jnp.array([0.5, -1.0, 2.0, 0.25])),
    "oracle": OracleFill,
}

# Exceptions to "what a missing cell holds cannot matter".
READS_MISSING_CELLS = {"oracle": "the experiment of the paper's Figure 1 shows it the truth"}


def possible_rows(name: str, n_rows: int = N_ROWS, seed: int = 0) -> np.ndarray:
    """Rows that the observation model of this name can have produced, in float32."""
    rng = np.random.default_rng(seed)
    shape = (n_rows, N_FEATURES)
    kinds = {
        "positive": lambda: rng.lognormal(size=shape),
        "bernoulli": lambda: rng.integers(2, size=shape),
        "count": lambda: rng.poisson(3.0, size=shape),
        "categorical": lambda: rng.integers(SIZES, size=shape),
        "ordinal": lambda: rng.integers(SIZES, size=shape),
        "columns_of_levels": lambda: np.stack(
            [rng.choice(own.values, n_rows) for own in CODED], 1
        ),
        "columns_of_counts": lambda: rng.poisson(3.0, size=shape),
    }
    x = kinds.get(name, lambda: rng.normal(size=shape))()
    if name == "heterogeneous":
        x[:, 1], x[:, 2] = rng.poisson(3.0, size=n_rows), rng.integers(3, size=n_rows)
    return np.asarray(x, dtype=np.float32)
