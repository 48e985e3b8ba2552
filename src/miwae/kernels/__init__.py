"""What XLA's CPU backend does slowly, written out. Each file says when it may be deleted."""

from miwae.kernels._linalg import cholesky_solve, solve_lower, solve_lower_transposed
from miwae.kernels._student_t import softplus, standard_student_t, student_t_log_prob
from miwae.kernels._threefry import bits, fold_in, normal, split_key, uniform
