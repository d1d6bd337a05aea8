# Every command that people and CI run, by name. `make` alone lists them.

CARGO ?= cargo
PYTHON ?= python3
# Where cargo puts what it builds; the Python tests look for the program there.
TARGET := $(or $(CARGO_TARGET_DIR),target)
TOOLS := .tools
VENV := $(TOOLS)/venv
BROKER := $(TOOLS)/bin/nats-server
CARGO_TEST_FLAGS ?= --no-fail-fast

# A shell that has not been started anew since rustup ran does not know cargo yet.
ifeq ($(shell command -v cargo 2>/dev/null),)
export PATH := $(HOME)/.cargo/bin:$(PATH)
endif

.DEFAULT_GOAL := help
.PHONY: help build demo test ci bench bench-delivery bench-million chaos simulate lint fmt fmt-check clippy docs deny spelling schemas generated \
	broker bins rust-test python-test ops-test clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: broker ## Build target/release/tidemill and get the broker
	$(CARGO) build --locked --release --package tidemill

demo: build ## Evaluate the shipped checkpoints on this machine, live, from nothing
	$(TARGET)/release/tidemill demo

test: broker bins ## Run all tests: Rust with real brokers and engines, the Python client, the scripts
	@failed=; \
	$(MAKE) --no-print-directory ops-test || failed="$$failed ops-test"; \
	$(MAKE) --no-print-directory python-test || failed="$$failed python-test"; \
	$(MAKE) --no-print-directory rust-test || failed="$$failed rust-test"; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed" >&2; exit 1; fi

ci: lint test generated ## Everything CI runs

bench: build ## Measure what Tidemill itself costs, against an engine that answers at once
	$(CARGO) build --locked --release --package tidemill-testkit --bin tidemill-fake-engine
	$(PYTHON) ops/bench/evaluate.py
	$(CARGO) build --locked --package tidemill-tests --bin tidemill-chaos
	TIDEMILL_BIN="$(abspath $(TARGET))/release/tidemill" $(TARGET)/debug/tidemill-chaos --resume 20000

bench-delivery: build ## Measure delivery alone and the whole, on one broker and on three
	$(CARGO) build --locked --release --package tidemill-testkit --bin tidemill-bench-pipeline
	$(TARGET)/release/tidemill-bench-pipeline

bench-million: build ## One evaluation of a million items, all killed on the way: memory, rate, restart: ITEMS=1000000
	$(CARGO) build --locked --release --package tidemill-testkit --bin tidemill-fake-engine
	$(PYTHON) ops/bench/million.py --items $(or $(ITEMS),1000000)

chaos: broker bins ## Kill, suspend and cut off real processes, and compare: SEED=, RUNS=, CHAOS_FLAGS=
	$(TARGET)/debug/tidemill-chaos --seed $(or $(SEED),1) --runs $(or $(RUNS),1) $(CHAOS_FLAGS)

simulate: ## Run the simulation with SEEDS= seeds, from FROM= on; SIM_SEED=7 make simulate replays one with its trace
	SIM_SEEDS=$(or $(SEEDS),10000) SIM_FROM=$(or $(FROM),0) $(CARGO) test --locked --package tidemill-simulation simulation -- --exact --nocapture

lint: fmt-check clippy docs spelling deny ## Formatting, clippy, docs, spelling, dependencies: warnings are errors

fmt: ## Format the code
	$(CARGO) fmt --all

deny: ## Check licences, bans and sources of dependencies
	@if command -v cargo-deny >/dev/null; then cargo-deny --locked check bans licenses sources; \
	else echo "make deny: skipped, cargo-deny is not installed (cargo install cargo-deny)"; fi

schemas: ## Write the generated files anew: streams/STREAMS.md and the JSON Schemas
	UPDATE_GENERATED=1 $(CARGO) test --locked --package tidemill-streams --test generated

rust-test: broker bins ## Run the Rust tests alone
	$(CARGO) test --locked --workspace $(CARGO_TEST_FLAGS)

python-test: bins broker $(VENV)/installed ## Run the Python client against a running pipeline
	TIDEMILL_BIN="$(abspath $(TARGET))/debug/tidemill" $(VENV)/bin/python -m unittest discover --start-directory tests/python --verbose

ops-test: $(VENV)/installed ## Test the scripts and docker-compose.yml
	ops/tests/get-nats-server.sh
	TIDEMILL_BIN="$(wildcard $(abspath $(TARGET))/debug/tidemill)" $(VENV)/bin/python ops/tests/compose.py
	$(VENV)/bin/python ops/tests/nats.py

clean: ## Remove what was built and fetched; evaluations in .tidemill stay
	$(CARGO) clean
	rm -rf $(TOOLS)

fmt-check: ## Check the formatting
	$(CARGO) fmt --all --check

clippy: ## Run clippy on everything; warnings are errors
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings

docs: ## Build the API documentation; warnings are errors
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items

spelling: ## Check the spelling
	@if command -v typos >/dev/null; then typos; \
	else echo "make spelling: skipped, typos is not installed (cargo install typos-cli)"; fi

# A stale file fails its own test too; this also sees a file that nobody generates any more or that was edited after.
generated: schemas ## Fail when a generated file is not as committed
	@git diff --exit-code -- streams || { echo "make generated: commit the files above" >&2; exit 1; }

bins:
	$(CARGO) build --locked --workspace --bins

broker:
	@ops/get-nats-server $(TOOLS)/bin >/dev/null

$(VENV)/installed: tests/python/requirements.txt
	@mkdir -p $(TOOLS)
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "make: Python's venv module is missing (Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --requirement $<
	@touch $@
