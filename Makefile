# Everything that a fresh machine with Python 3.11 needs: make run, make test. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup run test lint format bench sweep ui train-peeps clean

help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: $(VENV)/.ready ## Make .venv with everything in it

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

run: setup ## The main job on the embedded default (ARGS="model=... data=..." for another)
	@$(BIN)/python launch.py $(ARGS)

sweep: setup ## A sweep from conf/sweep: make sweep NAME=cuts
	@$(BIN)/python launch.py sweep=$(NAME) $(ARGS)

ui: setup ## Open the MLflow UI on the runs so far
	@$(BIN)/mlflow ui --backend-store-uri sqlite:///$(CURDIR)/mlruns/mlflow.db

test: setup ## The tests, on all cores (ARGS="-n 0 tests/x.py" for one file in one process)
	$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

lint: setup ## Style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Put the style right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## The benchmarks, one JSON line each
	@for file in benchmarks/[a-z]*.py; do $(BIN)/python $$file --json; done

train-peeps: setup ## Train the embedded model again (about two and a half hours on one core; fixed steps and seed)
	$(BIN)/python -m training.peeps

clean: ## Remove caches and outputs; answers, keys and the MLflow store stay
	rm -rf outputs .mypy_cache .ruff_cache .pytest_cache .hypothesis
