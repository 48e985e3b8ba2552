import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae.kernels import _linalg as linalg


@pytest.fixture(scope="module", params=[1, 2, 7])
def matrices(request):
    rng = np.random.default_rng(request.param)
    root = rng.normal(size=(5, request.param, request.param))
    return root @ np.swapaxes(root, 1, 2) + np.eye(request.param)


def last(a):
    return jnp.asarray(np.moveaxis(a, 0, -1), dtype=jnp.float32)


def test_factors_agree_with_numpy(matrices):
    lower = np.linalg.cholesky(matrices)
    b = np.random.default_rng(0).normal(size=(5, matrices.shape[1], 3))
    parts = linalg.cholesky_solve(last(matrices), last(b))
    factor, solution = (np.moveaxis(np.asarray(part), -1, 0) for part in parts)
    np.testing.assert_allclose(factor, lower, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(lower @ solution, b, rtol=1e-3, atol=1e-4)


def test_solutions_solve_their_systems(matrices):
    lower = np.linalg.cholesky(matrices)
    b = np.random.default_rng(0).normal(size=(5, matrices.shape[1], 3))
    for ours, system in (
        (linalg.solve_lower, lower),
        (linalg.solve_lower_transposed, np.swapaxes(lower, 1, 2)),
    ):
        solution = np.moveaxis(np.asarray(ours(last(lower), last(b))), -1, 0)
        np.testing.assert_allclose(system @ solution, b, rtol=1e-3, atol=1e-4)


def test_the_gradient_of_the_log_determinant_is_the_inverse(matrices):
    def log_det(a):
        return jnp.sum(2 * jnp.log(jnp.diagonal(linalg.cholesky_solve(a, a[:, :0])[0])))

    gradient = np.moveaxis(np.asarray(jax.grad(log_det)(last(matrices))), -1, 0)
    symmetric = (gradient + np.swapaxes(gradient, 1, 2)) / 2
    np.testing.assert_allclose(symmetric, np.linalg.inv(matrices), rtol=1e-3, atol=1e-4)
