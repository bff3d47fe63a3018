# The commands of the project; `make help` lists them. Locally and in CI they are the same.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Several targets install into one environment and build in one tree; what takes long runs in parallel by itself.
.NOTPARALLEL:

PYTHON ?= python3
# Another interpreter has an environment and a build tree of its own: make test PYTHON=python3.12
ifeq ($(PYTHON),python3)
FLAVOUR :=
else
FLAVOUR := -$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
endif
VENV_DIR := .venv$(FLAVOUR)
VENV := $(VENV_DIR)/bin
DEV := build/dev$(FLAVOUR)
# The wheel of this interpreter; dist/ may hold others.
WHEEL := dist/sonde-*-cp$(shell $(PYTHON) -c 'import sys; print("%d%d" % sys.version_info[:2])' 2>/dev/null)-*.whl
BENCH := build/bench$(FLAVOUR)
STAMPS := build/stamps$(FLAVOUR)
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 20
FUZZ_MINUTES ?= 60
# What `make compilers` builds with, as far as they are installed. By version: g++ is whatever the machine has.
COMPILERS ?= g++-12 g++-13 clang++
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

# $(call setup,[--retry] GROUPS): what these need, as far as it is missing (tools/setup.sh)
setup = PYTHON=$(PYTHON) VENV=$(VENV_DIR) STAMPS=$(STAMPS) tools/setup.sh $(1)

.PHONY: setup
setup: ## Packages, .venv, build, editable install: all that any target here needs
	@$(call setup,--retry $(for_tests) bench lint clang)
	@$(MAKE) --silent --no-print-directory build

# What the Python tests need. torch of [demo] comes before the partners that would bring another.
for_tests := build demo test partners

.PHONY: for-bench for-lint for-clang
for-bench:
	@$(call setup,$(for_tests) bench)
for-lint:
	@$(call setup,$(for_tests) lint)
for-clang:
	@$(call setup,build test clang)

# Setting up may replace .venv and with it the time stamps. This make has read them already, so the rest is done by
# another make.
# After `make test` the install has sonde._testing, which an install without it would remove.
.PHONY: build
build: ## Build engine, extension and command, installed editable into .venv
	@$(call setup,build)
	@stamp=$(STAMPS)/editable; [[ ! -e $$stamp-tests ]] || stamp+=-tests; \
	  $(MAKE) --silent --no-print-directory $$stamp

# The same, with everything that tests need.
.PHONY: build-tests
build-tests:
	@$(call setup,$(for_tests))
	@$(MAKE) --silent --no-print-directory $(STAMPS)/editable-tests

# One build tree for the editable install and the engine's tests. $(1): further options of CMake, $(2): targets,
# $(3): what is installed. The first command shows how far it is; pip then finds everything built.
define editable
	@echo "building the engine and sonde._core ($(DEV))"
	@cmake -S . -B $(DEV) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSONDE_PYTHON=ON -DSONDE_WERROR=KNOWN $(1) \
	  -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/python >/dev/null
	@cmake --build $(DEV) -j $(JOBS) --target $(2) | $(every_tenth)
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	  --config-settings=build-dir=$(DEV) --config-settings=cmake.build-type=RelWithDebInfo \
	  --config-settings=cmake.define.SONDE_WERROR=KNOWN \
	  "--config-settings=build.targets=$(subst $(space),;,$(2))" \
	  "--config-settings=install.components=$(subst $(space),;,$(3))" -e .
	@mkdir -p $(STAMPS) && touch $@
endef
space := $(subst ,, )
# Shows every tenth progress line of ninja, and all other lines.
every_tenth = awk '!/^\[[0-9]+\/[0-9]+\]/ || ++seen % 10 == 1 {print; fflush()}'

$(STAMPS)/editable-tests: $(native_sources)
	$(call editable,-DSONDE_TESTS=ON,_core _testing,python testing)
	@touch $(STAMPS)/editable

$(STAMPS)/editable: $(native_sources)
	$(call editable,,_core,python)

.PHONY: demo
# In a folder of its own: a run leaves its trace in ./.cirron, and that is where the command looks for one.
demo: ## Train a small model with the profiler on, then show where its time went
	@$(call setup,build demo)
	@$(MAKE) --silent --no-print-directory build
	@rm -rf build/demo && mkdir -p build/demo
	cd build/demo && $(CURDIR)/$(VENV)/python $(CURDIR)/examples/quickstart.py
	cd build/demo && $(CURDIR)/$(VENV)/sonde trace --summary

# --- tests --------------------------------------------------------------------------------------

.PHONY: test
test: test-engine test-python ## All tests: engine (ctest), then Python (pytest); PYTHON=python3.12 for another interpreter

# The extension is built first, in the same tree, so that nothing is compiled twice.
.PHONY: test-engine
test-engine: build-tests ## The engine's unit tests, and whether every header compiles alone
	@cmake --build $(DEV) -j $(JOBS) --target engine_tests $(header_checks) | $(every_tenth)
	@ctest --test-dir $(DEV) --output-on-failure --no-tests=error -j $(JOBS) | $(every_hundredth)

# Every header compiles alone.
header_checks := check_headers check_native_headers check_test_headers

# Shows every hundredth line of ctest about a passed test, and all other lines.
every_hundredth = awk '!/^ +Start |Passed +[0-9.]+ sec$$/ || (/Passed/ && ++seen % 100 == 0) {print; fflush()}'

# Tests of one file stay in one process: they share what takes long to make.
.PHONY: test-python
test-python: build-tests ## The Python tests
	@$(VENV)/python -m pytest -n $(JOBS) --dist loadfile

.PHONY: killtest
killtest: build-tests ## The long test: kill runs at random moments, again and again, and check what survives
	@$(VENV)/python -m pytest tests/nightly/test_many_kills.py

.PHONY: long
long: build-tests ## Every test of tests/nightly
	@$(VENV)/python -m pytest tests/nightly

# Each part runs, also after one that failed.
nightly_parts := long sanitize-asan sanitize-tsan fuzz fuzz-loops compilers lint
.PHONY: nightly
nightly: ## Everything that takes hours: long tests, sanitizers, fuzzing, all compilers
	@failed=; for part in $(nightly_parts); do $(MAKE) --no-print-directory $$part || failed+=" $$part"; done; \
	  [[ -z $$failed ]] || { echo "these parts failed:$$failed"; exit 1; }

.PHONY: compilers
compilers: for-clang ## Build everything with -Werror under each of COMPILERS that is installed
	@built=; for compiler in $(COMPILERS); do \
	  command -v $$compiler >/dev/null || { echo "$$compiler is not installed: left out"; continue; }; \
	  echo "$$compiler: $$($$compiler --version | head -n 1)"; tree=build/compilers$(FLAVOUR)/$$compiler; \
	  cmake -S . -B $$tree -G Ninja -DCMAKE_CXX_COMPILER=$$compiler -DSONDE_WERROR=ON -DSONDE_TESTS=ON \
	    -DSONDE_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/python >/dev/null; \
	  cmake --build $$tree -j $(JOBS) --target all $(header_checks) | $(every_tenth); \
	  built+=" $$compiler"; \
	done; \
	[[ -n $$built ]] || { echo "none of these compilers is installed: $(COMPILERS)" >&2; exit 1; }; \
	echo "built with:$$built"

# Debug builds, so that assertions count as well. $(1): build folder, $(2): sanitizers.
define sanitized
	@cmake -S . -B $(1) -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSONDE_TESTS=ON -DSONDE_SANITIZE=$(2) >/dev/null
	@cmake --build $(1) --target engine_tests
	@ctest --test-dir $(1) --output-on-failure --no-tests=error -j $(JOBS)
endef

.PHONY: sanitize
sanitize: sanitize-asan sanitize-tsan ## The engine's tests under address, undefined and thread sanitizers

.PHONY: sanitize-asan sanitize-tsan
sanitize-asan: build-tests
	$(call sanitized,build/asan,address$(comma)undefined)
sanitize-tsan: export TSAN_OPTIONS := halt_on_error=1 second_deadlock_stack=1
sanitize-tsan: build-tests
	$(call sanitized,build/tsan,thread)
comma := ,

.PHONY: fuzz
fuzz: for-clang ## Run each fuzz target for FUZZ_SECONDS (20)
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
fuzz-loops: build-tests ## Random training programs for FUZZ_MINUTES (60), each held against its own count of epochs and steps
	@$(VENV)/python tests/python/loop_fuzz.py --minutes $(FUZZ_MINUTES)

# --- measuring ----------------------------------------------------------------------------------

.PHONY: bench
bench: bench-setup ## Measure against baselines and check bench/budgets.json
	@$(VENV)/python bench/run.py

# Two environments: ours as users get it (the wheel, and beside it what only benches call), and the reference SDK. Both
# see the packages of .venv (torch, numpy) through a .pth file, after their own, so that nothing large is installed three
# times.
.PHONY: bench-setup
bench-setup: for-bench $(STAMPS)/bench-venv $(STAMPS)/peer-venv
	@cmake -S . -B $(BENCH)/tree -G Ninja -DCMAKE_BUILD_TYPE=Release -DSONDE_BENCH=ON -DSONDE_PYTHON=ON \
	  -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/python >/dev/null
	@cmake --build $(BENCH)/tree
	@cmake --install $(BENCH)/tree --component testing \
	  --prefix $$($(BENCH)/ours/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))') >/dev/null

# $(1): venv, $(2): what to install
define bench_venv
	@rm -rf $(1) && $(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2)
	@$(VENV)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  >$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth
	@touch $@
endef

$(STAMPS)/bench-venv: $(STAMPS)/wheel
	$(call bench_venv,$(BENCH)/ours,$(WHEEL))

$(STAMPS)/peer-venv: $(STAMPS)/peer
	$(call bench_venv,$(BENCH)/peer,$(PEER))

# Written only when PEER is another than the last time.
$(STAMPS)/peer: always
	@mkdir -p $(@D); [[ -f $@ && $$(<$@) == '$(PEER)' ]] || echo '$(PEER)' >$@
.PHONY: always
always:

# --- the rest -----------------------------------------------------------------------------------

.PHONY: lint
# In python/native clang-tidy does not ask for includes and names: it takes what is used of Python.h for includes that are
# missing, and the names of Python's own attributes for ours.
lint: for-lint build-tests ## Formatting and static checks, both languages
	@$(VENV)/ruff check
	@$(VENV)/ruff format --check
	@$(VENV)/mypy
	@$(VENV)/clang-format --dry-run -Werror $(cpp_files)
	$(call tidy,'engine/*.cpp' 'engine/*.h',)
	$(call tidy,'python/native/*.cpp',--checks=-misc-include-cleaner$(comma)-readability-identifier-naming)

# $(1): which files, $(2): further options
define tidy
	@git ls-files -co --exclude-standard $(1) | grep -v -e '-inl\.h$$' | \
	  xargs -P $(JOBS) -n 4 $(VENV)/clang-tidy --quiet -p $(DEV) \
	    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error $(2) \
	  2>build/clang-tidy.err || { grep -v ' warnings\? generated' build/clang-tidy.err >&2; exit 1; }
endef

.PHONY: format
format: ## Rewrite sources in the project's format
	@$(call setup,build lint)
	@$(VENV)/ruff check --fix --quiet
	@$(VENV)/ruff format --quiet
	@$(VENV)/clang-format -i $(cpp_files)

.PHONY: wheel
wheel: build $(STAMPS)/wheel ## Build the wheel into dist/, and name it
	@ls $(WHEEL)

$(STAMPS)/wheel: $(native_sources) $(python_sources)
	@rm -f $(WHEEL)
	@$(VENV)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps -w dist .
	@touch $@

.PHONY: clean
clean: ## Remove build output; keeps .venv
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
