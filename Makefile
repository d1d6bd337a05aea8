# Every command that people and CI run, by name. `make` alone lists them.

CARGO ?= cargo
PYTHON ?= python3
# Where cargo puts what it builds; the Python tests look for the program there.
TARGET := $(or $(CARGO_TARGET_DIR),target)
TOOLS := .tools
VENV := $(TOOLS)/venv
BROKER := $(TOOLS)/bin/nats-server

# A shell that has not been started anew since rustup ran does not know cargo yet.
ifeq ($(shell command -v cargo 2>/dev/null),)
export PATH := $(HOME)/.cargo/bin:$(PATH)
endif

.DEFAULT_GOAL := help
.PHONY: help build demo test test-engines ci humaneval scoring-golden bench bench-hot bench-resume bench-delivery bench-million chaos simulate lint fmt fmt-check clippy docs deny spelling schemas generated \
	test-parity template-parity harness-golden broker bins rust-test python-test python-run ops-test clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: broker ## Build target/release/tidemill and get the broker
	$(CARGO) build --locked --release --package tidemill

demo: build ## Evaluate the shipped checkpoints on this machine, live, from nothing
	$(TARGET)/release/tidemill demo

# What the Python tests take of make is here before they run beside the others.
test: broker $(VENV)/installed ## Run all tests: Rust with real brokers and engines, the Python client, the scripts
	CARGO="$(CARGO)" $(PYTHON) ops/run-tests --beside "make --no-print-directory python-run" \
		--beside "make --no-print-directory ops-test"

ci: lint test generated ## Everything CI runs

bench: build ## How full engines are kept and what that costs, as one table of ratios: BENCH_FLAGS='--quick', '--only cpu', '--json'
	$(CARGO) build --locked --release --package tidemill-testkit --bin tidemill-fake-engine
	$(PYTHON) ops/bench/bench.py $(BENCH_FLAGS)

bench-resume: build ## Measure what an item costs that answers at once, and one that is finished already
	$(CARGO) build --locked --release --package tidemill-testkit --bin tidemill-fake-engine
	$(PYTHON) ops/bench/evaluate.py
	$(CARGO) build --locked --package tidemill-tests --bin tidemill-chaos
	TIDEMILL_BIN="$(abspath $(TARGET))/release/tidemill" $(TARGET)/debug/tidemill-chaos --resume 20000

bench-hot: ## Measure the rules and encodings that each item passes: BENCH_FLAGS='encoding --quick'
	$(CARGO) bench --locked --package tidemill-benches --bench hot -- $(BENCH_FLAGS)

bench-delivery: build ## Measure delivery alone and the whole, on one broker and on three
	$(CARGO) build --locked --release --package tidemill-testkit --bin tidemill-bench-pipeline
	$(TARGET)/release/tidemill-bench-pipeline

bench-million: build ## One evaluation of a million items, all killed on the way: memory, rate, restart: ITEMS=1000000
	$(CARGO) build --locked --release --package tidemill-testkit --bin tidemill-fake-engine
	$(PYTHON) ops/bench/million.py --items $(or $(ITEMS),1000000)

chaos: broker bins ## Kill, suspend and cut off real processes, and compare: SEED=, RUNS=, CHAOS_FLAGS=
	$(TARGET)/debug/tidemill-chaos --seed $(or $(SEED),1) --runs $(or $(RUNS),1) $(CHAOS_FLAGS)

test-engines: bins ## Check the adapters against real engines, installed into .tools/engines (about 8 GB): ENGINES="vllm sglang"
	@for engine in $(or $(ENGINES),embedded llamacpp vllm sglang); do CARGO="$(CARGO)" ops/engines/check $$engine || exit 1; done

humaneval: broker build ## Grade HumanEval end to end, with its own solutions and with wrong ones, as a table: LIMIT=20
	$(PYTHON) ops/humaneval --program $(TARGET)/release/tidemill $(if $(LIMIT),--limit $(LIMIT))

test-parity: bins broker ## Compare with lm-evaluation-harness on the same tasks and server, installed into .tools/parity (1 GB)
	$(PYTHON) -m venv $(TOOLS)/parity
	$(TOOLS)/parity/bin/python -m pip install --quiet --requirement ops/parity/requirements.txt
	$(TOOLS)/parity/bin/python ops/parity/run.py --program $(TARGET)/debug/tidemill $(PARITY_FLAGS)

template-parity: ## Render the templates of lm-evaluation-harness's task files by it and here; needs make test-parity once
	$(CARGO) build --locked --package tidemill-harness --example harness
	$(TOOLS)/parity/bin/python ops/parity/templates.py --program $(TARGET)/debug/examples/harness $(TEMPLATE_FLAGS)

harness-golden: ## Write anew what lm-evaluation-harness makes of the fixtures of shared/harness; needs make test-parity once
	HF_HUB_OFFLINE=1 $(TOOLS)/parity/bin/python ops/parity/golden.py shared/harness/fixtures

scoring-golden: ## Write anew what other packages score, installed into .tools/scoring (60 MB): the tests of shared/scoring compare with it
	$(PYTHON) -m venv --clear $(TOOLS)/scoring
	$(TOOLS)/scoring/bin/python -m pip install --quiet --no-deps --requirement ops/scoring/requirements.txt
	$(TOOLS)/scoring/bin/python ops/scoring/golden.py

simulate: ## Run the simulation with SEEDS= seeds, from FROM= on; SIM_SEED=7 make simulate replays one with its trace
	SIM_SEEDS=$(or $(SEEDS),10000) SIM_FROM=$(or $(FROM),0) $(CARGO) test --locked --workspace --test simulation simulation -- --exact --nocapture

lint: fmt-check clippy docs spelling deny ## Formatting, clippy, docs, spelling, dependencies: warnings are errors

fmt: ## Format the code
	$(CARGO) fmt --all

deny: ## Check licences, bans and sources of dependencies
	@if command -v cargo-deny >/dev/null; then cargo-deny --locked check bans licenses sources; \
	else echo "make deny: skipped, cargo-deny is not installed (cargo install cargo-deny)"; fi

schemas: ## Write the generated files anew: streams/STREAMS.md, the JSON Schemas and docs/configuration.md
	UPDATE_GENERATED=1 $(CARGO) test --locked --workspace --test generated

rust-test: broker ## Run the Rust tests alone: TEST_FLAGS='--only cluster -- NAME'
	CARGO="$(CARGO)" $(PYTHON) ops/run-tests $(TEST_FLAGS)

python-test: bins broker python-run ## Run the Python client against a running pipeline

python-run: $(VENV)/installed
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

# `--examples`, of which there are none, has cargo take the dependencies as clippy has checked them.
docs: ## Build the API documentation; warnings are errors
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items --examples \
		--lib --bin tidemill --bin tidemill-chaos --bin tidemill-fake-engine --bin tidemill-bench-pipeline

spelling: ## Check the spelling
	@if command -v typos >/dev/null; then typos; \
	else echo "make spelling: skipped, typos is not installed (cargo install typos-cli)"; fi

# A stale file fails its own test too; this also sees a file that nobody generates any more or that was edited after.
generated: schemas ## Fail when a generated file is not as committed
	@git diff --exit-code -- streams docs/configuration.md || { echo "make generated: commit the files above" >&2; exit 1; }

# With one test, which is small: for tests, dependencies have more features, and all is compiled once more without them.
bins:
	$(CARGO) build --locked --workspace --bins --test architecture

broker:
	@ops/get-nats-server $(TOOLS)/bin >/dev/null

$(VENV)/installed: tests/python/requirements.txt
	@mkdir -p $(TOOLS)
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "make: Python's venv module is missing (Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --requirement $<
	@touch $@
