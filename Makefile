# Each target works alone on a fresh clone: whatever needs the environment makes it first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test soak check bench docs web

setup: $(STAMP)

$(STAMP): pyproject.toml extension_api/pyproject.toml examples/tool_call_counter/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		--editable ./extension_api --editable '.[dev]' --editable examples/tool_call_counter
	touch $(STAMP)

demo: setup
	$(BIN)/deerflow demo README.md ARCHITECTURE.md

test: setup
	$(BIN)/python -m pytest

soak: setup
	$(BIN)/python -m pytest -m soak

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m tests.bench

docs: setup
	$(BIN)/python docs/_site build/docs
	$(BIN)/zensical build --strict --clean

# The page that the Gateway serves at /ui/; its result is committed. Needs Node.js 20.19 or newer.
web:
	cd web && npm ci && npm run build
