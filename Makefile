# Two commands matter: `make demo` and `make test`. Each does all of its own set-up.
# `make help` lists the others.

BIN := .venv/bin
READY := .venv/.ready
# The tools we measure ourselves against need older versions than we do, so they get an environment of their own.
PEERS := .venv/peers
# MST and AIM need still older ones.
PEERS_CENTRAL := .venv/peers-central
# So does Spark.
SPARK := .venv/spark
# And what builds the site.
DOCS := .venv/docs
JOBS ?= 2
# One BLAS thread per worker: two workers with two BLAS threads each are slower than one alone.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# Compiled modules are kept, whatever the shell says: the tests start hundreds of children, and each would compile the
# program again.
KEPT := PYTHONDONTWRITEBYTECODE=
PYTEST = $(ONE_THREAD) $(KEPT) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --timeout 300 -rfEs --durations 15
# Debian packages, beyond Python, that the tests need. scripts/set-up looks after Python's own venv package.
TEST_PACKAGES := postgresql chromium
SYSTEM_TEST_PACKAGES := default-jre-headless
UPGRADE ?=
# PYTHON=... names the interpreter that set-up takes; without it, the first that is 3.11 or newer.
export PYTHON

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-all papers results archive peers-central bench docs set-up lock picture reference clean

help:
	@echo "make demo       the owner's road on a small table: sanitize, audit, report"
	@echo "make test       format, lint, types and tests"
	@echo "make test-all   the same, and the slow checks: tests/system, and what is marked so elsewhere"
	@echo "make papers     every table and figure of the papers, resumable"
	@echo "make results    papers/results.json anew: printed and reached (SFUMATO_DATA names the folder of tables)"
	@echo "make archive    what a citation points at, as of the last commit: figures, errata, the code that gave them"
	@echo "make peers-central  MST and AIM, for papers/central/run.py --peers"
	@echo "make bench      speed and memory, side by side with other tools"
	@echo "make docs       the site of the documentation, offline, every link checked"
	@echo "make lock       write the lock again (UPGRADE=--upgrade takes new versions)"
	@echo "make reference  write docs/reference, the glossary, tests/snapshots and the hashes of the survey's page"
	@echo "make picture    draw the pictures of the demo and the desk again"
	@echo "make clean      remove .venv, caches and demo-out"

demo: $(READY)
	@$(BIN)/sfumato demo --out demo-out --force

test: $(READY)
	@scripts/system-packages $(TEST_PACKAGES)
	@echo "== format"
	@$(BIN)/ruff format --check .
	@echo "== lint"
	@$(BIN)/ruff check .
	@echo "== types"
	@$(BIN)/mypy
	@echo "== tests"
	@$(PYTEST) -m "not system" tests --ignore tests/system

test-all: test $(SPARK)/.ready $(PEERS)/.ready $(DOCS)/.ready
	@scripts/system-packages $(SYSTEM_TEST_PACKAGES)
	@echo "== system tests"
	@$(PYTEST) --timeout 3600 -m system tests

papers: $(READY)
	@$(BIN)/python papers/run_all.py

results: $(READY)
	@$(BIN)/python papers/results.py

archive:
	@mkdir -p dist
	@git archive --format=tar.gz --prefix=sfumato-results/ -o dist/sfumato-results.tar.gz HEAD CITATION.cff LICENSE docs/errata.md papers src
	@echo "dist/sfumato-results.tar.gz: $$(git rev-parse HEAD)"

peers-central: $(PEERS_CENTRAL)/.ready

bench: $(READY) $(PEERS)/.ready
	@$(BIN)/python benchmarks/run_all.py

docs: $(DOCS)/.ready
	@$(ONE_THREAD) $(DOCS)/bin/python scripts/website/build.py

set-up: $(READY)

$(READY): requirements-dev.txt pyproject.toml scripts/set-up
	@scripts/set-up .venv requirements-dev.txt

$(PEERS)/.ready: requirements-peers.txt scripts/set-up | $(READY)
	@scripts/set-up $(PEERS) requirements-peers.txt || echo "The peers cannot be installed here; they are left out."

$(PEERS_CENTRAL)/.ready: requirements-peers-central.txt scripts/set-up | $(READY)
	@scripts/set-up $(PEERS_CENTRAL) requirements-peers-central.txt

$(SPARK)/.ready: requirements-spark.txt scripts/set-up | $(READY)
	@scripts/set-up $(SPARK) requirements-spark.txt || echo "Spark cannot be installed here; its tests are left out."

$(DOCS)/.ready: requirements-docs.txt scripts/set-up | $(READY)
	@scripts/set-up $(DOCS) requirements-docs.txt

# Spark is 400 MB: it has a lock and an environment of its own, so that nobody else waits for it.
EXTRAS := --extra sql --extra server --extra polars --extra statistics --extra dev
COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet $(UPGRADE)

lock: $(READY)
	@$(BIN)/python -m pip install --quiet uv
	$(BIN)/$(COMPILE) pyproject.toml requirements-build.in $(EXTRAS) -o requirements-dev.txt
	$(BIN)/$(COMPILE) pyproject.toml requirements-build.in --extra spark -c requirements-dev.txt -o requirements-spark.txt
	$(BIN)/$(COMPILE) pyproject.toml requirements-build.in --extra docs -c requirements-dev.txt -o requirements-docs.txt
	$(BIN)/$(COMPILE) requirements-peers.in --excludes requirements-peers-without.in -o requirements-peers.txt
	$(BIN)/$(COMPILE) requirements-peers-central.in -o requirements-peers-central.txt

picture: $(READY)
	@$(BIN)/sfumato demo --out demo-out --force | $(BIN)/python scripts/draw_terminal.py "sfumato demo" > docs/images/demo.svg
	@SFUMATO_PICTURES=docs/images $(PYTEST) -n 0 tests/system/test_desk_in_browser.py -k dropped

reference: $(READY)
	@$(BIN)/python scripts/write_page_hashes.py
	@$(BIN)/python scripts/write_reference.py
	@$(BIN)/python scripts/snapshots.py --write

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist demo-out
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
