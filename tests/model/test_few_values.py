"""Observation models of codes, and of numbers that take few values."""

import jax.numpy as jnp
import numpy as np

from cases import N_FEATURES, OBSERVATIONS
from miwae.model import Categorical, Coded, MixedColumns, Ordinal
from model.marginals import log_prob, parameters


def test_categories_are_one_hot_in_blocks_of_columns():
    values, _ = Categorical((2, 3)).embed(jnp.array([[1.0, 2.0]]), jnp.ones((1, 2), dtype=bool))
    np.testing.assert_array_equal(values, [[0, 0, 1, 0, 0, 1]])


def test_ordered_codes_are_thermometers_in_blocks_of_columns():
    values, _ = Ordinal((2, 3)).embed(jnp.array([[1.0, 2.0]]), jnp.ones((1, 2), dtype=bool))
    np.testing.assert_array_equal(values, [[1, 1, 0, 1]])


def test_the_single_imputation_of_a_category_is_the_most_probable_one():
    mean = jnp.array([[0.2, 0.1, 0.8, 0.3, 0.0, 0.6]])  # two columns, blocks of categories
    np.testing.assert_array_equal(Categorical((2, 3)).point(mean), [[1.0, 2.0]])


def test_the_single_imputation_of_an_ordered_code_is_the_median():
    survival = jnp.array([[0.4, 0.9, 0.0, 0.6], [0.6, 0.3, 0.0, 0.2]])
    np.testing.assert_array_equal(Ordinal((2, 3)).point(survival), [[0.0, 2.0], [1.0, 0.0]])


def test_no_logit_makes_a_value_of_few_impossible():
    observation = MixedColumns.of([], [Coded("points", (0.0, 1.0), (0.3, 0.7))], 0)
    x = jnp.ones((1, observation.n_features))
    eta = jnp.zeros(observation.n_parameters).at[0].set(500.0).at[1].set(-500.0)
    found = log_prob(observation, eta[None, None], x, x.astype(bool).at[:, 1:].set(False))
    np.testing.assert_allclose(found, np.log(0.7e-3), rtol=1e-5)


def test_a_number_between_the_values_counts_as_the_nearest():
    observation = OBSERVATIONS["columns_of_levels"]()
    eta = jnp.asarray(parameters(observation))
    exact = jnp.array([[1.0, 5.0, 2.0, 1.0]])
    near = jnp.array([[0.6, 900.0, 2.2, 1.4]])
    observed = jnp.ones((1, N_FEATURES), dtype=bool)
    np.testing.assert_array_equal(
        log_prob(observation, eta[:, :1], near, observed),
        log_prob(observation, eta[:, :1], exact, observed),
    )
