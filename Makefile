# The commands of the project; `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# LEEWAY_TORCH names another LibTorch, on a machine that may have no network and none of Debian's
# packages: then only what needs nothing else is built.
PRESET := $(if $(LEEWAY_TORCH),bare,release)
JOBS := $(shell nproc 2>/dev/null || echo 2)
# The warning about kineto, which the wheel does not ship and nobody here needs, would come first.
CONFIGURE := cmake --log-level=ERROR
CTEST := ctest --output-on-failure -j2

.PHONY: help setup build demo test test-long bench asan tsan format clean

help:
	@echo 'make demo       train a small model asynchronously and synchronously, see it write (4 min)'
	@echo 'make test       set up, build, run every test'
	@echo 'make build      set up and build build/leeway'
	@echo 'make test-long  the tests above and those that are too slow for every change'
	@echo 'make bench      one table of speeds, beside PyTorch in the same run'
	@echo 'make asan       unit, property and conformance tests, address and undefined sanitizers'
	@echo 'make tsan       unit, property and conformance tests, thread sanitizer'
	@echo 'make format     clang-format on all of our sources'
	@echo 'make setup      only tools/setup: Debian packages and .venv'
	@echo 'make clean      remove everything that was built (not .venv, not out/)'

setup:
	@tools/setup

build: setup
	@$(CONFIGURE) --preset $(PRESET)
	@cmake --build build -j $(JOBS)

demo: build
	build/leeway train recipes/quickstart.toml --out out/demo --fresh
	build/leeway timeline out/demo
	build/leeway generate out/demo --prompt 'def forward(self, ' --tokens 200
	@echo
	@echo 'The same again, synchronously, to see what not waiting costs and saves.'
	build/leeway train recipes/quickstart.toml --out out/demo-synchronous --fresh \
	  --set pipeline.schedule=1f1b --set averaging.method=allreduce \
	  --set averaging.merge=auto --set averaging.lag=auto
	@echo
	@echo 'The run is in out/demo: config.toml, events.jsonl, summary.json, checkpoints/, and'
	@echo 'timeline.html, a picture of who did what when. Charts of both runs, and the verdict:'
	build/leeway report out/demo --against out/demo-synchronous --out out/demo/report.html

test: build
	$(CTEST) --test-dir build -LE '^long$$'

test-long: build
	$(CTEST) --test-dir build

bench: build
	@cmake --build build --target bench

# Containers that LibTorch's code and ours both touch are annotated on one side only.
asan: setup
	@$(CONFIGURE) --preset asan
	@cmake --build build-asan -j $(JOBS)
	ASAN_OPTIONS=detect_container_overflow=0:strict_init_order=1 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	$(CTEST) --test-dir build-asan -L '^(unit|property|conformance)$$'

# One OpenMP thread: tools/sanitizers/tsan.supp says why.
tsan: setup
	@$(CONFIGURE) --preset tsan
	@cmake --build build-tsan -j $(JOBS)
	OMP_THREAD_LIMIT=1 \
	TSAN_OPTIONS=suppressions=$(CURDIR)/tools/sanitizers/tsan.supp:halt_on_error=1 \
	$(CTEST) --test-dir build-tsan -L '^(unit|property|conformance)$$'

format:
	@git ls-files --cached --others --exclude-standard '*.h' '*.cpp' | xargs clang-format -i

clean:
	rm -rf build build-debug build-asan build-tsan
