# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test stress attack bench paper docs picture clean

demo: $(VENV)/core
	$(BIN)/braindive demo demo

test: $(VENV)/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto

# Tests that start processes, send signals or wait, again and again beside a busy core;
# `make stress TIMES=5 TESTS=tests/cli` for others.
TIMES ?= 20
stress: $(VENV)/dev
	$(BIN)/python tests/stress.py $(TIMES) $(TESTS)

# The seeded attacks of tests/attack, so many times as many tries as in `make test`.
ATTACKS ?= 20
attack: $(VENV)/dev
	BRAINDIVE_ATTACKS=$(ATTACKS) $(BIN)/pytest tests/attack

bench: $(VENV)/dev
	$(BIN)/python benchmarks/run.py --write docs/performance.md

# Every experiment of the paper, reduced; `make paper FULL=--full` for the paper's size.
paper: $(VENV)/dev
	$(BIN)/python evidence/run.py --output docs/evidence $(FULL)

# The static site, built without network.
docs: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/sphinx-build -W --keep-going -q docs site

# The pictures in the README and on pages; needs chromium and chromedriver.
picture: $(VENV)/dev demo
	$(BIN)/python docs/picture.py demo/report.html docs/images

$(VENV)/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'braindive needs Python 3.11 or newer: make PYTHON=python3.12')"
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/core: $(VENV)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[report]"
	touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	touch $@ $(VENV)/core

clean:
	rm -rf $(VENV) demo site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
