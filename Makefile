# `make run` and `make test` need Python 3.11 or newer and set up everything else; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup run test test-thorough lint format docs bench sweep ui train-peeps torture wheel-test test-lowest test-python test-extras hashes audit chart-library clean

help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: $(VENV)/.ready ## Create .venv with all dependencies

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

run: setup ## Evaluate the bundled model on the drawn people (ARGS="model=... data=..." for others)
	@$(BIN)/python launch.py $(ARGS)

sweep: setup ## A sweep from conf/sweep: make sweep NAME=cuts
	@$(BIN)/python launch.py sweep=$(NAME) $(ARGS)

ui: setup ## Open the MLflow UI
	@$(BIN)/fp2 ui $(ARGS)

test: setup ## Run the tests on all cores (ARGS="-n 0 tests/test_cuts.py" for one file in one process)
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

test-thorough: setup ## The tests that "make test" leaves out: more pages, models, versions and sizes of what it covers
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m thorough $(ARGS)

lint: setup ## Style, types and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Fix the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## Build the documentation as a site in site/ (warnings are errors)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "start page   $(CURDIR)/site/index.html"

bench: setup ## Run the benchmarks, one JSON line each
	@failed=; for file in $$(grep -l __main__ benchmarks/*.py); do $(BIN)/python $$file --json || failed="$$failed $$file"; done; \
	test -z "$$failed" || { echo "error:$$failed" >&2; exit 1; }

chart-library: ## Build the library that draws the charts of the pages (needs npm)
	./.ci/chart_library

torture: setup ## Kill, starve and deceive runs, and compare what is left (about half an hour; ARGS=--short for a part)
	$(BIN)/python -m benchmarks.torture $(ARGS)

wheel-test: setup ## Install the wheel into a fresh environment and run it there (ARGS=--full downloads the dependencies too)
	./.ci/wheel $(ARGS)

test-lowest: ## Run tests with the lowest allowed version of every dependency, in an environment of its own
	PYTHON=$(PYTHON) ./.ci/environment lowest $(ARGS)

test-python: ## Run tests with another Python, in an environment of its own (PYTHON=python3.13)
	PYTHON=$(PYTHON) ./.ci/environment python $(ARGS)

test-extras: ## Run the tests of the extras, in an environment of its own that has them
	PYTHON=$(PYTHON) ./.ci/environment extras $(ARGS)

hashes: setup ## Download every pinned package and compare it with its digest (needs the network)
	./.ci/hashes download

audit: setup ## Look for known vulnerabilities in the pinned dependencies (needs the network)
	./.ci/audit

train-peeps: setup ## Train the bundled model again (about two and a half hours on one core; fixed steps and seed)
	$(BIN)/python -m training.peeps

clean: ## Remove caches and outputs; answers, keys and the MLflow store stay
	rm -rf outputs site .mypy_cache .ruff_cache .pytest_cache .hypothesis
