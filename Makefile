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

# In as many processes as tests/conftest.py says; `python -m pytest` runs in one, for some tests and for debuggers.
# What a process compiles those that tests start need not compile again. The stacks of a test that hangs are shown
# before its process is ended.
test: export PYTHONDONTWRITEBYTECODE =
test: setup
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal --override-ini faulthandler_timeout=290

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
