.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
PORT ?= 3000
HOME_OF_RUNS := $(CURDIR)/.dagster_home

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/made: setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; name one with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(HOME_OF_RUNS)/dagster.yaml: medallion_assets/templates/dagster.yaml
	@mkdir -p $(HOME_OF_RUNS)
	@cp $< $@

demo: .venv/made $(HOME_OF_RUNS)/dagster.yaml ## Set up, land files, fill every table, then open the Dagster UI
	$(BIN)/medallion land school --files 2 --faults
	$(BIN)/medallion land health --files 2 --faults
	$(BIN)/medallion land commerce --files 2
	DAGSTER_HOME=$(HOME_OF_RUNS) $(BIN)/medallion run
	$(BIN)/medallion status
	@echo "The Dagster UI is at http://127.0.0.1:$(PORT); drop another file with: $(BIN)/medallion land school"
	DAGSTER_HOME=$(HOME_OF_RUNS) $(BIN)/dagster dev -w workspace.yaml -h 127.0.0.1 -p $(PORT)

ui: .venv/made $(HOME_OF_RUNS)/dagster.yaml ## Open the Dagster UI on what the lake holds
	DAGSTER_HOME=$(HOME_OF_RUNS) $(BIN)/dagster dev -w workspace.yaml -h 127.0.0.1 -p $(PORT)

test: .venv/made ## Set up and pass lint, types and all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
# Two at a time, each with a Spark session of its own: one alone keeps a single core busy.
	$(BIN)/python -m pytest -n 2 --dist worksteal

fast: .venv/made ## Only the tests that need no Spark (under two minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not spark and not thorough"

thorough: .venv/made ## The cases that are too many for each change, and 20 times the examples of property tests
	MEDALLION_EXAMPLES=20 $(BIN)/python -m pytest -n 2 --dist worksteal -m "thorough or not spark"

faults: .venv/made ## The fault matrix: each fault injected for real, with what was seen
	$(BIN)/python -m medallion_assets_tests.faults

bench: .venv/made ## One more file, fresh process: ours against plain notebooks
	$(BIN)/python -m benchmarks.cold_increment

rooms: .venv/made ## Draw the package's rooms into docs/architecture.md again
	$(BIN)/python -m medallion_assets_tests.rooms

chapters: .venv/made ## Run the notebooks in docs/notebooks, and write what their cells show into them
	$(BIN)/python -m medallion_assets_tests.chapters

clean: ## Remove the environment; tables and landing stay
	rm -rf .venv *.egg-info

.PHONY: help demo ui test fast thorough faults bench rooms chapters clean
