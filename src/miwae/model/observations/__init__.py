"""Observation models p(x | z): one file per kind of feature."""
