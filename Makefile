# Everything a developer runs. The first target needs the network once, to fill .venv; later ones are quick.

PYTHON ?= python3
# A Python named on the command line gets its own environment: make test PYTHON=python3.13
ifeq ($(origin PYTHON),command line)
VENV   := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo unknown)
else
VENV   := .venv
endif
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PLOTS  := $(VENV)/.installed-plots
MINUTES ?= 30

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONUNBUFFERED := 1
# The tests start hundreds of processes. Without stored bytecode each would compile durable again, in 0.2 s.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check ruff mypy basedpyright pythons soak bench clean

help: ## show this list
	@echo "durable: a workflow engine that is a library. Targets:"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP) ## watch a workflow survive the death of its process
	@$(BIN)/python -m examples.checkout_demo

test: check ## check, then every test on asyncio and trio, the required coverage, and one other Python
	@echo "pytest, what is measured for coverage"
	@$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not unmeasured" --cov --cov-report=json:.coverage.json
	@echo "pytest, the rest"
	@$(BIN)/python -m pytest -q -n 3 --dist worksteal -m unmeasured
	@$(BIN)/python tests/coverage_gate.py .coverage.json
	@$(BIN)/python -m tests.pythons --newest
	@echo "passed: ruff, mypy, basedpyright, pytest on asyncio and trio, coverage"

pythons: $(STAMP) ## the quick tests on each Python from 3.11 to 3.14 on the path or in pyenv
	@$(BIN)/python -m tests.pythons

check: $(STAMP) ## lint, format and types; changes nothing
	@$(MAKE) --no-print-directory --jobs=2 --output-sync ruff mypy basedpyright

ruff mypy basedpyright: $(STAMP)

ruff:
	@echo "ruff check, ruff format --check"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

mypy:
	@echo "mypy"
	@$(BIN)/mypy --no-error-summary

basedpyright:
	@echo "basedpyright"
	@$(BIN)/basedpyright --pythonpath $(BIN)/python

soak: $(STAMP) ## try to break the engine for MINUTES=30, and print the figures
	@$(BIN)/python -m tests.soak --minutes $(MINUTES)

bench: $(PLOTS) ## measure durable and its peers, write docs/benchmarks.md; for less: ARGS="--only W1 --peers none"
	@$(BIN)/python -m bench --docs $(ARGS)

clean: ## remove .venv, its siblings and all files of tools
	@rm -rf .venv .venv-* .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	@rm -rf bench/.peers bench/results
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "durable needs Python 3.11 or newer; '$(PYTHON)' is missing or older: $$($(PYTHON) --version 2>&1)"; \
	  echo "name another one: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing durable and its tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --progress-bar off --editable ".[dev]"
	@touch $@

$(PLOTS): $(STAMP)
	@echo "installing the plotting library for the benchmarks"
	@$(BIN)/python -m pip install --quiet --progress-bar off --editable ".[bench]"
	@touch $@
