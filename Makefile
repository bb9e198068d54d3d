# Needs only python3 and make. Every target sets up what it uses.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: help setup demo test test-fast test-slow lint bench clean
.DELETE_ON_ERROR:

help:
	@echo "make setup      install into $(VENV) (versions from constraints.txt)"
	@echo "make demo       see the point in minutes; pictures in out/"
	@echo "make test       the test suite, in minutes"
	@echo "make test-fast  only what takes less than a second each"
	@echo "make test-slow  what is too long for the suite; each test says why"
	@echo "make lint       ruff, mypy --strict, import-linter"
	@echo "make bench      speed against an eager PyTorch port, in one run"

setup: $(VENV)/.installed
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e ".[dev]"
	@touch $@

demo: setup
	$(BIN)/diffts demo --out out

# Compiled programs are kept from run to run, which saves a third of the time; `make clean` forgets.
PYTEST := JAX_COMPILATION_CACHE_DIR=$(abspath $(VENV))/compiled $(BIN)/python -m pytest -n 2 --dist worksteal

test: setup
	$(PYTEST) -m "not long" --durations=8

test-fast: setup
	$(PYTEST) -m "not slow and not long"

# With XLA's own settings: these tests compute more than they compile.
test-slow: $(VENV)/.installed-spark
	XLA_FLAGS= $(PYTEST) -m long --durations=0

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# 400 MB, for one test, which is skipped where there is no Java.
$(VENV)/.installed-spark: $(VENV)/.installed
	$(PIP) install -c constraints.txt -e ".[dev,spark]"
	-scripts/debian-for-tests java
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) install -c constraints.txt -e ".[dev,bench]"
	@touch $@

bench: $(VENV)/.installed-bench
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.speed --out benchmarks/results/cpu.md
	$(BIN)/python -m benchmarks.baselines --out benchmarks/results/baselines.md

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build src/*.egg-info
