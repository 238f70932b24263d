# Every verb makes what it needs first: a fresh clone needs Python 3.11+ and make, nothing else.

PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := -m pip --disable-pip-version-check -qq
CODE := $(wildcard trellis_jobs jobs_admin pytest_trellis_jobs tests benchmarks examples tools)
PROSE := $(CODE) $(wildcard docs deploy contracts *.md)

.DEFAULT_GOAL := help
.PHONY: help setup dev check lint types words format test test-fast fuzz model soak workers-long delays-long bench bench-peers bench-scale docs console-shots site constraints clean

help:  ## list these verbs
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "  make %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.stamp .servers/.stamp .venv/.chromium  ## make .venv and fetch the servers that tests run against

dev: .venv/.demo  ## run a server, a demo service and its worker, and show what its jobs go through
	@$(BIN)/trellis-jobs dev

check: lint types words  ## formatting, lint, types, words and layers; changes nothing
	$(BIN)/pytest -q tests/test_layers.py

lint: setup  ## formatting and lint only
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)

types: setup  ## types only
	$(BIN)/mypy --strict $(CODE)

words: setup  ## spelling, and words that have a plainer one
	$(BIN)/codespell $(PROSE)
	$(BIN)/python -m tools.plain_words

format: setup  ## format the code and mend what lint can mend
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

test: check  ## the checks, then every test; what CI runs
	$(BIN)/pytest -n 4 --dist loadfile --durations 30

test-fast: setup  ## the tests that need no server: rules, wire format, contracts, layers; under a minute
	$(BIN)/pytest -q -n 2 tests/model tests/wire tests/contract tests/test_layers.py

fuzz: setup  ## 100,000 corrupt messages through every decoder, and to a running worker and admin
	FUZZ_SEED=$$(date +%s) FUZZ_INPUTS=5000 $(BIN)/pytest -q tests/fuzz

model: setup  ## explore the protocol further than the tests do: every interleaving, more faults
	MODEL_LARGER=1 $(BIN)/pytest -q -s tests/model/test_whole_model.py

soak: setup  ## kill the admin runtime again and again while it projects 50,000 jobs
	SOAK_JOBS=50000 SOAK_KILLS=20 $(BIN)/pytest -q tests/admin/test_killed_while_projecting.py

workers-long: setup  ## freeze, block and cut off workers with the default settings; three minutes
	WORKERS_LONG=1 $(BIN)/pytest -q -s -rA tests/workers/test_dead_workers.py -k "default and settings"

delays-long: setup  ## delayed jobs in clusters of four versions while leaders change and servers are killed; ten minutes
	DELAYS_LONG=1 $(BIN)/pytest -q -s -rA tests/delays/test_cluster.py

SEED ?= 1
CHAOS := $(BIN)/python -m tests.chaos --seed $(SEED)
.PHONY: chaos chaos-long crash-points load

chaos: setup  ## four minutes of faults that SEED=1 decides, against one server and against three
	$(CHAOS) --seconds 60
	$(CHAOS) --seconds 60 --servers 3

chaos-long: setup  ## the same for twenty minutes
	$(CHAOS) --seconds 480
	$(CHAOS) --seconds 480 --servers 3

PART ?= 1/1
crash-points: setup  ## kill a process before and after every await, 1,000 times; three quarters of an hour, PART=1/3 a third
	$(BIN)/python -m tests.crash_points --seed $(SEED) --part $(PART)

load: setup  ## 100,000 jobs on 50 connections with a burst, a client that does not read, a stuck handler; some minutes
	$(BIN)/python -m tests.load $(ARGS)

bench: setup  ## run the benchmarks
	$(BIN)/python -m benchmarks

bench-peers: setup  ## ours against other job systems, some 40 minutes; ARGS="--quick" only tries that it runs
	$(BIN)/python -m benchmarks.peers $(ARGS)

bench-scale: setup  ## what jobs weigh, and rates with a million of them, some 20 minutes; ARGS="--only depth" does a piece
	$(BIN)/python -m benchmarks scale $(ARGS)

docs: setup  ## write the generated pages of the docs again
	$(BIN)/python -m tools.reference.write
	$(BIN)/python -m tools.states_page
	$(BIN)/python -m tools.rpc_contract
	$(BIN)/python -m tools.manifest_schema

console-shots: setup  ## pictures of every screen of the web console, light and dark, into build/console
	$(BIN)/python -m tests.console.shots build/console

site: setup  ## render the docs as a site, into build/site
	$(BIN)/mkdocs build --strict

constraints:  ## rewrite constraints.txt with the newest versions that fit
	$(PYTHON) -m venv --clear .venv-fresh
	.venv-fresh/bin/python $(PIP) install -e '.[embedded,dev]'
	{ echo '# What `make setup` installs, to the exact version. Refresh with: make constraints'; \
	  .venv-fresh/bin/python -m pip freeze --exclude-editable; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf .venv-fresh

clean:  ## remove everything that was made, .venv and .servers included
	rm -rf .venv .servers .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found" >&2; exit 1; }
	@echo "making .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv

# What the demo runs on, and none of the tools that develop it. Not compiled: that takes longer
# than the first start saves, and Python compiles what it loads.
.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing the demo's packages into .venv: some 20 MB to fetch, the first time only"
	@$(BIN)/python -m pip --disable-pip-version-check install --no-compile --progress-bar on \
	  -e '.[embedded,console]' -c constraints.txt
	@touch $@

.venv/.stamp: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing the packages that tests and checks need into .venv: some minutes, once"
	$(BIN)/python $(PIP) install -e '.[embedded,dev]' -c constraints.txt
	@touch .venv/.demo $@

# Tests in a browser are skipped where there is none, so this never fails.
.venv/.chromium: tests/support/install_chromium.sh | .venv/.stamp
	@sh tests/support/install_chromium.sh
	@touch $@

.servers/.stamp: tests/support/fetch_servers.py | .venv/.stamp
	$(BIN)/python tests/support/fetch_servers.py
	@touch $@
