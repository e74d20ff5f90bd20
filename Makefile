# Everything a developer does, by name. Where make, a compiler or Python's headers are missing, ./do TARGET installs them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -q --disable-pip-version-check
SOURCES := $(wildcard kernels_c/*.h) kernels_c/ffi_build.py
KERNELS := kernels_c/_ffi.abi3.so
INSTALLED := $(VENV)/.installed
DEVELOP := $(VENV)/.develop
JOBS ?= 2

.PHONY: help demo setup build test test-all lint format bench clean
.DELETE_ON_ERROR:

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(INSTALLED)  ## interpreted beside compiled, on the built-in models
	$(BIN)/twinfer bench

setup: $(DEVELOP)  ## the environment in .venv, with everything the tests need
	@$(MAKE) -s --no-print-directory $(KERNELS)  # a second look: installing has built them

build: setup  ## the C kernels, after a header was changed

test: setup lint  ## what CI runs
	$(BIN)/python -m pytest -n $(JOBS) --durations=40

test-all: setup lint  ## the same over every model of the corpus
	$(BIN)/python -m pytest -n $(JOBS) --all-models

lint: setup  ## ruff and mypy
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	$(BIN)/mypy --no-error-summary

format: $(DEVELOP)  ## formats Python and C, and sorts imports
	$(BIN)/ruff check -q --select I --fix .
	$(BIN)/ruff format -q .
	clang-format -i kernels_c/*.h aot/board/*.[ch]

bench: setup  ## the benchmark suites
	$(BIN)/python -m pytest bench --benchmark-only

clean:  ## removes everything that was made
	rm -rf $(VENV) build dist out *.egg-info $(KERNELS) .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The peers are worth having beside ours in the table, but there is a table without them.
$(INSTALLED): pyproject.toml setup.py $(SOURCES) | $(BIN)/python
	$(PIP) -e '.[peers]' || $(PIP) -e .
	touch $@

$(DEVELOP): pyproject.toml setup.py | $(BIN)/python
	$(PIP) -e '.[dev,peers]'
	touch $@ $(INSTALLED)

$(KERNELS): $(SOURCES)
	$(BIN)/python setup.py -q build_ext --inplace
	touch $@ $(INSTALLED)
