# `make help` lists the targets. The environment is made in .venv on first use.

PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin
SOURCES = _paddle_ipu_autoload.py setup.py paddle_ipu passes ops tests examples benchmarks
# Each of the test processes gets its share of the cores.
TEST_PROCESSES ?= 2

.PHONY: help bert venv format lint types imports test unit clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 12

bert: $(VENV)/installed-bert  ## pretrain a small BERT on the IPU Model; ARGS="--help" tells more
	$(RUN)/python -m examples.bert.pretrain $(ARGS)

$(VENV)/installed-bert: pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet --editable '.[bert]'
	@touch $@

venv: $(VENV)/installed  ## make .venv and install the project with all it needs for development

$(VENV)/installed: pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet --editable '.[dev,bert]'
	@touch $@

format: venv  ## rewrite the sources in ruff's format
	$(RUN)/ruff format $(SOURCES)
	$(RUN)/ruff check --select I --fix $(SOURCES)

lint: venv  ## check format and lint rules
	$(RUN)/ruff format --check $(SOURCES)
	$(RUN)/ruff check $(SOURCES)

types: venv  ## check types with mypy --strict
	$(RUN)/mypy

imports: venv  ## check who may import whom
	$(RUN)/lint-imports --no-logo

unit: venv  ## run the tests alone
	$(RUN)/python -m pytest -n $(TEST_PROCESSES)

test: lint types imports unit  ## check everything: format, lint, types, imports, tests

clean:  ## remove what building and testing leave behind, .venv included
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis
