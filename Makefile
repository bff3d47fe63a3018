# The commands of the project; `make help` lists them. Locally and in CI they are the same.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv/bin
STAMPS := build/stamps
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 20
FUZZ_MINUTES ?= 60
# What `make bench` compares with; fixed, so that two tables can be compared.
PEER ?= cirron-sdk==0.3.0

# Folders count as prerequisites too: their time changes when a file in them comes or goes.
native_sources := $(shell find engine python/native cmake CMakeLists.txt pyproject.toml)
python_sources := $(shell find python/sonde python/cirron -name __pycache__ -prune -o -print 2>/dev/null)
cpp_files = $(shell find engine python/native tests bench -name '*.cpp' -o -name '*.h')

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- set-up and build ---------------------------------------------------------------------------

.PHONY: setup
setup: build ## Packages, .venv, build, editable install: all that is missing

.PHONY: environment
environment:
	@PYTHON=$(PYTHON) tools/setup.sh

.PHONY: build
build: environment $(STAMPS)/editable ## Build engine, extension and command, installed editable into .venv

# One build tree, build/dev, for the editable install and the engine's tests. pip costs 2 s on top of ninja.
$(STAMPS)/editable: $(native_sources) $(STAMPS)/venv
	@echo "building the engine and sonde._core (build/dev)"
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

# Made by tools/setup.sh, which knows better than make whether they are current.
$(STAMPS)/venv $(STAMPS)/packages: | environment

.PHONY: demo
# In a folder of its own: a run leaves its trace in ./.cirron, and that is where the command looks for one.
demo: build ## Train a small model with the profiler on, then show where its time went
	@rm -rf build/demo && mkdir -p build/demo
	cd build/demo && $(CURDIR)/$(VENV)/python $(CURDIR)/examples/quickstart.py
	cd build/demo && $(CURDIR)/$(VENV)/sonde trace --summary

# --- tests --------------------------------------------------------------------------------------

.PHONY: test
test: test-engine test-python ## All tests: engine (ctest), then Python (pytest)

# Needs no Python: engine work goes on while the glue is in pieces.
.PHONY: test-engine
test-engine: environment ## The engine's unit tests
	@[[ -f build/dev/CMakeCache.txt ]] || cmake -S . -B build/dev -G Ninja -DSONDE_TESTS=ON >/dev/null
	@cmake --build build/dev --target engine_tests
	@ctest --test-dir build/dev --output-on-failure --no-tests=error -j $(JOBS)

.PHONY: test-python
test-python: build ## The Python tests
	@$(VENV)/python -m pytest

.PHONY: killtest
killtest: build ## The long test: kill runs at random moments, again and again, and check what survives
	@$(VENV)/python -m pytest tests/nightly

# Debug builds, so that assertions count as well. $(1): build folder, $(2): sanitizers.
define sanitized
	@cmake -S . -B $(1) -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSONDE_TESTS=ON -DSONDE_SANITIZE=$(2) >/dev/null
	@cmake --build $(1) --target engine_tests
	@ctest --test-dir $(1) --output-on-failure --no-tests=error -j $(JOBS)
endef

.PHONY: sanitize
sanitize: sanitize-asan sanitize-tsan ## The engine's tests under address, undefined and thread sanitizers

.PHONY: sanitize-asan sanitize-tsan
sanitize-asan: environment
	$(call sanitized,build/asan,address$(comma)undefined)
sanitize-tsan: export TSAN_OPTIONS := halt_on_error=1 second_deadlock_stack=1
sanitize-tsan: environment
	$(call sanitized,build/tsan,thread)
comma := ,

.PHONY: fuzz
fuzz: environment ## Run each fuzz target for FUZZ_SECONDS (20)
	@cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Debug -DSONDE_FUZZ=ON >/dev/null
	@cmake --build build/fuzz --target fuzz_targets
	@shopt -s nullglob; for target in build/fuzz/tests/fuzz/*_fuzz; do \
	  name=$$(basename $$target); corpus=build/fuzz/corpus/$$name; seeds=tests/fuzz/seeds/$$name; \
	  mkdir -p $$corpus; [[ -d $$seeds ]] || seeds=; \
	  echo "fuzzing $$name for $(FUZZ_SECONDS) s"; \
	  $$target -max_total_time=$(FUZZ_SECONDS) -timeout=10 -artifact_prefix=build/fuzz/$$name- \
	    $$corpus $$seeds >build/fuzz/$$name.log 2>&1 || { tail -n 80 build/fuzz/$$name.log; exit 1; }; \
	  tail -n 1 build/fuzz/$$name.log; \
	done

.PHONY: fuzz-loops
fuzz-loops: build ## Random training programs for FUZZ_MINUTES (60), each held against its own count of epochs and steps
	@$(VENV)/python tests/python/loop_fuzz.py --minutes $(FUZZ_MINUTES)

# --- measuring ----------------------------------------------------------------------------------

.PHONY: bench
bench: bench-setup ## Measure against baselines and check bench/budgets.json
	@$(VENV)/python bench/run.py

# Two environments: ours as users get it (the wheel, and beside it what only benches call), and the reference SDK. Both see the packages of .venv (torch,
# numpy) through a .pth file, behind their own, so that nothing large is installed three times.
.PHONY: bench-setup
bench-setup: environment $(STAMPS)/bench-venv $(STAMPS)/peer-venv
	@cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DSONDE_BENCH=ON -DSONDE_PYTHON=ON \
	  -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/python >/dev/null
	@cmake --build build/bench
	@cmake --install build/bench --component testing \
	  --prefix $$(build/bench-venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))') >/dev/null

# $(1): venv, $(2): what to install
define bench_venv
	@rm -rf $(1) && $(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2)
	@$(VENV)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  >$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth
	@touch $@
endef

$(STAMPS)/bench-venv: $(STAMPS)/wheel
	$(call bench_venv,build/bench-venv,dist/sonde-*.whl)

$(STAMPS)/peer-venv: $(STAMPS)/venv
	$(call bench_venv,build/peer-venv,$(PEER))

# --- the rest -----------------------------------------------------------------------------------

.PHONY: lint
lint: build ## Formatting and static checks, both languages
	@$(VENV)/ruff check
	@$(VENV)/ruff format --check
	@$(VENV)/mypy
	@clang-format --dry-run -Werror $(cpp_files)
	@found=$$(run-clang-tidy -quiet -p build/dev -j $(JOBS) '^$(CURDIR)/engine/.*\.cpp$$' 2>/dev/null) || \
	  { grep -v '^clang-tidy' <<<"$$found"; exit 1; }

.PHONY: format
format: environment ## Rewrite sources in the project's format
	@$(VENV)/ruff check --fix --quiet
	@$(VENV)/ruff format --quiet
	@clang-format -i $(cpp_files)

.PHONY: wheel
wheel: environment $(STAMPS)/wheel ## Build the wheel into dist/

$(STAMPS)/wheel: $(native_sources) $(python_sources) $(STAMPS)/venv
	@rm -f dist/sonde-*.whl
	@$(VENV)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps -w dist .
	@ls dist/sonde-*.whl
	@touch $@

.PHONY: clean
clean: ## Remove build output; keeps .venv
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
