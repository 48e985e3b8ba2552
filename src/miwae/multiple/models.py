"""Coefficients, their covariance and degrees of freedom, from models of other libraries."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from miwae.errors import DataError, SettingsError
from miwae.multiple.design import Design
from miwae.multiple.optional import is_a, is_exactly, loaded_type

__all__ = ["Fitted", "Fitter", "is_estimator", "model_fitter"]

REMEDY = (
    "Pass a function that fits it to a completed copy and returns (estimates, variances) instead: "
    "draws.fit(function)"
)


class Fitted(NamedTuple):
    """What `pool` needs from a fit.

    Attributes:
        names: of the coefficients.
        estimates: the coefficients.
        covariance: of the coefficients.
        df: residual degrees of freedom.
    """

    names: tuple[str, ...]
    estimates: np.ndarray
    covariance: np.ndarray
    df: float


Fitter: TypeAlias = Callable[[Design], Fitted]


def is_estimator(model: Any) -> bool:
    """Whether it is an estimator of scikit-learn, or a class of estimators."""
    base = loaded_type("sklearn.base.BaseEstimator")
    return is_a(model, "sklearn.base.BaseEstimator") or (
        base is not None and isinstance(model, type) and issubclass(model, base)
    )


def model_fitter(model: Any) -> Fitter:
    """The way to fit a model to a design.

    Args:
        model: an estimator of scikit-learn, or what makes a statsmodels model from response and
            features.
    """
    # Subclasses, such as LogisticRegressionCV, are other estimators with other errors.
    if is_exactly(model, "sklearn.linear_model.LinearRegression"):
        return _linear_regression(model)
    if is_exactly(model, "sklearn.linear_model.LogisticRegression"):
        return _logistic_regression(model)
    if is_estimator(model):
        raise SettingsError(_unknown_estimator(model))
    if callable(model):
        return _statsmodels(model)
    raise SettingsError(
        f"{model!r} is neither a scikit-learn estimator nor a statsmodels model class. {REMEDY}"
    )


def _unknown_estimator(model: Any) -> str:
    if isinstance(model, type):
        return f"{model.__name__} is a class: pass an instance, {model.__name__}()"
    return (
        f"{type(model).__name__} gives no standard errors that could be pooled; known are "
        f"LinearRegression and LogisticRegression without penalty. {REMEDY}"
    )


def _linear_regression(model: Any) -> Fitter:
    if model.get_params()["positive"]:
        raise SettingsError(
            f"LinearRegression(positive=True) has no known standard errors. {REMEDY}"
        )

    def fit(design: Design) -> Fitted:
        estimates = _fitted_coefficients(model, design)
        df = len(design.y) - design.x.shape[1]
        residuals = design.y - design.x @ estimates
        covariance = (residuals @ residuals) / df * _inverse_gram(design.x)
        return Fitted(design.names, estimates, covariance, float(df))

    return fit


def _logistic_regression(model: Any) -> Fitter:
    from scipy.special import expit

    settings = model.get_params()
    # Until scikit-learn 1.7 no penalty was `penalty=None`; since 1.8 it is an infinite C.
    if settings.get("penalty", "l2") is not None and not np.isinf(settings["C"]):
        raise SettingsError(
            "penalised coefficients have no standard errors that Rubin's rules could use: pass "
            "LogisticRegression(C=np.inf)"
        )
    if settings["class_weight"] is not None:
        raise SettingsError(f"class weights change the standard errors. {REMEDY}")

    def fit(design: Design) -> Fitted:
        classes = np.unique(design.y)
        if len(classes) != 2:
            raise DataError(
                f"the target {design.target!r} has {len(classes)} distinct values in copy "
                f"{design.copy}: a logistic regression needs two"
            )
        estimates = _fitted_coefficients(model, design)
        probability = expit(design.x @ estimates)
        # The likelihood then grows without end, and what an optimiser returns is where it gave up.
        if np.array_equal(probability > 0.5, design.y == classes[1]):
            raise DataError(
                f"the features separate the values of {design.target!r} perfectly in copy "
                f"{design.copy}, so that the coefficients have no finite estimate"
            )
        root = np.sqrt(probability * (1 - probability))
        covariance = _inverse_gram(root[:, None] * design.x)
        df = len(design.y) - design.x.shape[1]
        return Fitted(design.names, estimates, covariance, float(df))

    return fit


def _fitted_coefficients(model: Any, design: Design) -> Float[np.ndarray, " Q"]:
    """Coefficients in the order of the design, whose column of ones scikit-learn adds itself."""
    from sklearn.base import clone

    own: Any = clone(model)
    own.set_params(fit_intercept=design.intercept)
    own.fit(design.x[:, int(design.intercept) :], design.y)
    intercept = np.ravel(own.intercept_) if design.intercept else np.zeros(0)
    return np.concatenate([intercept, np.ravel(own.coef_)])


def _inverse_gram(x: Float[np.ndarray, "N Q"]) -> Float[np.ndarray, "Q Q"]:
    """The inverse of `x' x`, by way of its triangular root."""
    inverse = np.linalg.inv(np.linalg.qr(x, mode="r"))
    return inverse @ inverse.T


def _statsmodels(model: Callable[..., Any]) -> Fitter:
    import pandas as pd  # which statsmodels needs itself

    def fit(design: Design) -> Fitted:
        made = model(
            pd.Series(design.y, name=design.target), pd.DataFrame(design.x, columns=design.names)
        )
        quiet = {"disp": 0} if "disp" in inspect.signature(made.fit).parameters else {}
        result = made.fit(**quiet)
        # Models with parameters besides the coefficients name them all.
        estimates = result.params
        if not is_a(estimates, "pandas.Series"):
            raise SettingsError(
                f"{type(made).__name__} has no single vector of coefficients. {REMEDY}"
            )
        return Fitted(
            tuple(str(name) for name in estimates.index),
            estimates.to_numpy(),
            np.asarray(result.cov_params()),
            float(result.df_resid),
        )

    return fit
