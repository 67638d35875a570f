# Everything here works in a fresh clone that has make and Python 3.11 or newer.
# The first target that needs them builds `.venv` from `requirements.lock`; later ones reuse it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKED := $(VENV)/.locked
READY := $(VENV)/.ready
JOBS ?= $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Where `make sim` begins: after the seeds that `make test` plays.
SEED ?= 20000
CODE := $(wildcard src tests examples benchmarks scripts)
PURE_FILES := src/amends/contracts/*,src/amends/transactions/*,src/amends/governance/*,src/amends/receipts/*,src/amends/protocol/*,src/amends/ledger/*,src/amends/journal/*
# What needs processes, terminals or many files of its own is left to `make test`.
FAST := tests/architecture $(filter-out tests/unit/cli/ tests/unit/testing/,$(wildcard tests/unit/[a-z]*/))
# What the first Python of the list that is new enough and can make a virtual environment is called.
FIND_PYTHON = for python in "$(PYTHON)" python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' \
	>/dev/null 2>&1 && echo "$$python" && break; done

.DEFAULT_GOAL := help
.PHONY: help demo test check fix coverage sim lock bench bench-big clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY)  ## watch a payment being planned, approved, interrupted, found again and refunded
	@$(BIN)/amends demo

test: $(READY) programs  ## run every test
	@echo "Running every test in $(JOBS) processes."
	@HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: $(READY)  ## format, lint, types, rooms and the fast tests, in less than a minute
	@echo "Format:"
	@$(BIN)/ruff format --check $(CODE)
	@echo "Lint:"
	@$(BIN)/ruff check $(CODE)
	@echo "Types:"
	@$(BIN)/mypy $(CODE)
	@echo "Rooms:"
	@$(BIN)/lint-imports --no-logo --no-cache
	@echo "Architecture and fast tests:"
	@HYPOTHESIS_PROFILE=fast $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(FAST)

fix: $(READY)  ## format, and repair what the linter can repair
	@$(BIN)/ruff check --fix --exit-zero $(CODE)
	@$(BIN)/ruff format $(CODE)

coverage: $(READY) programs  ## run every test with branch coverage and hold it to its limits
	@echo "Running every test in $(JOBS) processes, with branch coverage."
	@HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov --cov-report=
	@echo "The pure rooms, in which every branch has to be taken:"
	@$(BIN)/coverage report --include="$(PURE_FILES)" --fail-under=100
	@echo "The whole product, of which 95 % has to be taken:"
	@$(BIN)/coverage report --fail-under=95

sim: $(READY)  ## play 200 000 small worlds, from SEED on: the real engine, dying at any await
	@$(BIN)/python -m amends.simulation --scenarios 200000 --seed $(SEED)

lock: $(READY)  ## resolve the dependencies anew and write both lock files
	@echo "Resolving the dependencies for Python 3.11 and newer."
	@$(BIN)/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
		--extra http --extra demo --extra policy --extra pydantic --extra postgres --extra dev \
		--generate-hashes --custom-compile-command "make lock" --output-file requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
		--extra bench --constraint requirements.lock \
		--generate-hashes --custom-compile-command "make lock" --output-file requirements-bench.lock
	@echo "The lock files are written; the next target installs them."

bench: $(READY)  ## measure beside things that do less: one table, and benchmarks/results/latest.json
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-bench.lock
	@$(BIN)/python -m benchmarks

bench-big: $(READY)  ## the measurements that take long: a million records there
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-bench.lock
	@$(BIN)/python -m benchmarks --big

clean:  ## remove what the other targets built
	@rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOCKED): requirements.lock
	@python="$$($(FIND_PYTHON))"; \
	if [ -z "$$python" ]; then \
		echo "No Python 3.11 or newer that can make virtual environments was found." >&2; \
		echo "Name one (make PYTHON=/path/to/python3.12), or install one; on Debian and Ubuntu" >&2; \
		echo "also the package python3-venv." >&2; \
		exit 1; \
	fi; \
	echo "Building $(VENV) with $$("$$python" --version); this takes a minute, once."; \
	"$$python" -m venv --clear $(VENV)
	@echo "Installing what requirements.lock names."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
		--require-hashes --requirement requirements.lock
	@touch $@

$(READY): pyproject.toml $(LOCKED)
	@echo "Installing Amends itself."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
		--no-build-isolation --no-deps --editable .
	@touch $@

# Real containers and a real pooler are tested. They are packages of the system, which root installs
# once; only Linux has containers.
.PHONY: programs
programs:
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin"; lacking=""; \
	command -v pgbouncer >/dev/null || lacking="pgbouncer"; \
	[ "$$(uname -s)" != Linux ] || command -v bwrap >/dev/null || lacking="bubblewrap $$lacking"; \
	if [ -z "$$lacking" ]; then exit 0; fi; \
	if [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing" $$lacking; \
		apt-get update -qq; DEBIAN_FRONTEND=noninteractive \
			apt-get install -qq --yes --no-install-recommends $$lacking >/dev/null && exit 0; \
	fi; \
	echo "The tests need packages that root has to install. On Debian and Ubuntu:" >&2; \
	echo "    sudo apt-get install" $$lacking >&2; \
	exit 1

.PHONY: docs
docs: $(READY)  ## print the pages of docs/ that are made from the code
	@$(BIN)/python scripts/print_spec.py
	@$(BIN)/python scripts/print_reference.py

.PHONY: kills
# Every run kills at the same places; `make kills KILL_SEED=77` kills elsewhere.
KILL_SEED ?= 0
kills: $(READY)  ## kill thousands of processes, and look for what was doubled or lost
	@$(BIN)/python -m amends.testing.kills --kills 1000 --seed $(KILL_SEED)
	@$(BIN)/python -m amends.testing.worker_kills --schedules 2000 --seed $(KILL_SEED)

.PHONY: soak
soak: $(READY)  ## a million inputs for each decoder of what workers send and store, each time others
	@HYPOTHESIS_PROFILE=soak AMENDS_SOAK_PARTS=100 $(BIN)/python -m pytest -n auto tests/property/test_decoders.py

.PHONY: chaos
# The worlds of `make chaos CHAOS_SEED=77` are others; 2 000 plans, each committed by all, come first.
CHAOS_SEED ?= 0
chaos: $(READY)  ## three minutes of everything that can happen to many runtimes on one PostgreSQL
	@$(BIN)/python -m amends.testing.chaos --plans 2000 --seconds 180 --seed $(CHAOS_SEED)
