# The commands of the project; `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# LEEWAY_TORCH names another LibTorch, on a machine that may have no network and none of Debian's
# packages: then only what needs nothing else is built.
PRESET := $(if $(LEEWAY_TORCH),bare,release)
JOBS := $(shell nproc 2>/dev/null || echo 2)
# For the preset that names none; an existing build folder keeps its own.
ifneq ($(shell command -v ninja),)
export CMAKE_GENERATOR := Ninja
endif
# Hides a warning about kineto, which the wheel does not ship and we do not need.
CONFIGURE := cmake --log-level=ERROR -DLEEWAY_WERROR=$(if $(CI),ON,OFF)
CTEST := ctest --output-on-failure -j2
# The suites that CI runs under sanitizers: those where threads, lifetimes and bounds are subtle.
SANITIZED := unit_worker unit_averaging unit_checkpoint unit_drivers_sim conformance_drivers
# The simulator has one thread: the thread sanitizer has nothing to find there.
THREADED := $(filter-out unit_drivers_sim,$(SANITIZED))
# Containers that LibTorch's code and ours both touch are annotated on one side only. The swarms run
# as many seeds as a minute has.
ASAN := LEEWAY_SWARM_SECONDS=60 ASAN_OPTIONS=detect_container_overflow=0:strict_init_order=1 \
        UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# One OpenMP thread: tools/sanitizers/tsan.supp says why.
TSAN := OMP_THREAD_LIMIT=1 \
        TSAN_OPTIONS=suppressions=$(CURDIR)/tools/sanitizers/tsan.supp:halt_on_error=1
SANITIZED_KINDS := '^(unit|property|conformance)$$'

# For each of the targets of libFuzzer.
FUZZ_SECONDS := 60

# What `make bench-gpu` measures, the time for each part, and the file that all of them append to.
GPU_PARTS := kernels shapes mesh large autotune
GPU_SECONDS := 400
GPU_RESULTS := out/gpu.md

.PHONY: help setup needs-packages build build-tests build-gpu demo test test-long test-gpu bench \
        bench-gpu sanitize asan tsan fuzz lint format clean

help:
	@echo 'make demo       eight processes over slow lines, asynchronously and synchronously; one is'
	@echo '                killed (first time: a minute of set-up, three of building, three to train)'
	@echo 'make test       set up, build, run every test but the slow ones'
	@echo 'make build      set up and build build/leeway'
	@echo 'make test-long  every test, then make asan, make tsan and make fuzz'
	@echo 'make bench      one table of speeds, beside PyTorch in the same run'
	@echo 'make test-gpu   the tests that need a GPU, with LEEWAY_TORCH or a PyTorch that has CUDA'
	@echo 'make bench-gpu  one table of speeds on a GPU, beside PyTorch in the same run'
	@echo 'make sanitize   the suites of worker, averaging, drivers and checkpoint under sanitizers'
	@echo 'make asan       unit, property and conformance tests, address and undefined sanitizers'
	@echo 'make tsan       unit, property and conformance tests, thread sanitizer'
	@echo 'make fuzz       libFuzzer over every parser, FUZZ_SECONDS=60 each'
	@echo 'make lint       clang-tidy over what has changed since BASE (the commit before this one)'
	@echo 'make format     clang-format on all of our sources'
	@echo 'make setup      only tools/setup: Debian packages and .venv'
	@echo 'make clean      remove everything that was built (not .venv, not out/)'

setup:
	@tools/setup

needs-packages:
	@test -z "$(LEEWAY_TORCH)" || { echo 'a build with LEEWAY_TORCH has no tests' >&2; exit 1; }

# Only the program: seeing a model train must not wait for the tests to compile.
build: setup
	@$(CONFIGURE) --preset $(PRESET) -DLEEWAY_TESTS=OFF -DLEEWAY_BENCH=OFF
	@cmake --build build -j $(JOBS) --target leeway

build-tests: needs-packages
	@tools/setup tests
	@$(CONFIGURE) --preset release -DLEEWAY_TESTS=ON -DLEEWAY_BENCH=ON
	@cmake --build build -j $(JOBS)

demo: build
	@tools/demo

test: build-tests
	$(CTEST) --test-dir build -LE '^long$$'

test-long: build-tests
	$(CTEST) --test-dir build
	$(MAKE) asan tsan fuzz

bench: build-tests
	@cmake --build build --target bench

# A machine with a GPU may have nothing else: no packages, no network, no .venv.
build-gpu:
	@torch="$${LEEWAY_TORCH:-$$(python3 -c 'import torch; \
	  print(torch.utils.cmake_prefix_path if torch.version.cuda else "")' 2>/dev/null)}"; \
	test -n "$$torch" || \
	  { echo 'no LibTorch with CUDA: set LEEWAY_TORCH, see docs/gpu.md' >&2; exit 1; }; \
	echo "building with the LibTorch in $$torch" && \
	LEEWAY_TORCH="$$torch" $(CONFIGURE) --preset bare -DLEEWAY_GPU_TESTS=ON -DLEEWAY_GPU_BENCH=ON
	cmake --build build -j $(JOBS) --target leeway gpu_tests gpu_bench

# Named, the device must be there: skipped tests would pass.
test-gpu: build-gpu
	LEEWAY_TEST_DEVICE=cuda build/tests/gpu_tests

# A part that fails is named in the file, and the next one is measured.
bench-gpu: build-gpu
	@failed=; for part in $(GPU_PARTS); do \
	  echo "measuring $$part, at most $(GPU_SECONDS) s, into $(GPU_RESULTS)"; \
	  python3 bench/gpu/run.py --part $$part --seconds $(GPU_SECONDS) --append $(GPU_RESULTS) || \
	    failed="$$failed $$part"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# Only these suites and what they need are built.
sanitize: needs-packages
	@tools/setup tests
	@$(CONFIGURE) --preset asan
	@cmake --build build-asan -j $(JOBS) --target $(SANITIZED)
	$(ASAN) $(CTEST) --test-dir build-asan -R '^($(subst $() ,|,$(SANITIZED)))$$'
	@$(CONFIGURE) --preset tsan
	@cmake --build build-tsan -j $(JOBS) --target $(THREADED)
	$(TSAN) $(CTEST) --test-dir build-tsan -R '^($(subst $() ,|,$(THREADED)))$$'

asan: needs-packages
	@tools/setup tests
	@$(CONFIGURE) --preset asan
	@cmake --build build-asan -j $(JOBS)
	$(ASAN) $(CTEST) --test-dir build-asan -L $(SANITIZED_KINDS)

tsan: needs-packages
	@tools/setup tests
	@$(CONFIGURE) --preset tsan
	@cmake --build build-tsan -j $(JOBS)
	$(TSAN) $(CTEST) --test-dir build-tsan -L $(SANITIZED_KINDS)

# Only the parsers, their targets and what they need are built, by clang.
fuzz: needs-packages
	@tools/setup fuzz
	@$(CONFIGURE) --preset fuzz
	@cmake --build build-fuzz -j $(JOBS) --target fuzz_files fuzz_libfuzzer
	@tools/fuzz $(FUZZ_SECONDS)

lint: needs-packages
	@tools/setup tests
	@tools/lint $(BASE)

format:
	@tools/setup tests
	@git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' | xargs clang-format -i

clean:
	rm -rf build build-debug build-asan build-tsan build-fuzz build-lint
