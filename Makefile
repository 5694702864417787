# make demo    a running cluster: one coordinator, three unequal workers, a small model of our own
# make test    everything that is checked, as CI does it
# make test-all   the same with whole sweeps: more seeds, every pair of faults
# make web     the page for browsers, from web/src into web/dist (Node 18 or later)
# make check ROOM=core    the tests of one room, quickly, after a change
# make package    Debian packages of the program and its symbols, and a tarball, in build/packages
# make arm64      the program for arm64, built here on amd64 and tested under qemu-user beside the one for amd64
# make sim-night HOURS=8    the cluster fuzz on all cores; HOURS=0.01 for a quick try
# make fuzz MINUTES=10    what reads bytes from outside gets any bytes, within limits of memory and time
# make chaos N=1000    kills and stops workers of a real cluster N times under load and compares every answer;
#                      KILL=worker|coordinator|gateway|all says who dies
# Each installs what it needs (Debian 12, root or sudo), builds and runs.

SHELL := /bin/bash
JOBS ?= $(shell nproc)
MODEL ?=
BUILD := build/release

.PHONY: all build demo demo-check test test-all check bench sim-night chaos format format-check package arm64 tidy layers words asan tsan fuzz web clean help

all: build

help:
	@sed -n 's/^# //p' Makefile

build:
	@tools/install-deps.sh
	@cmake --preset release $(CMAKE_ARGS) >$(or $(TMPDIR),/tmp)/helix-configure.log || { tail -20 $(or $(TMPDIR),/tmp)/helix-configure.log; exit 1; }
	@cmake --build --preset release --target helix -j $(JOBS)

demo: build
	@python3 tools/demo.py --binary $(BUILD)/bin/helix $(if $(MODEL),--model $(MODEL))

demo-check: build
	@python3 tools/demo.py --binary $(BUILD)/bin/helix --check $(if $(MODEL),--model $(MODEL))

# Formatting, layers, clang-tidy, all tests of the release build, the fast ones under ASan and UBSan, too.
test:
	@tools/install-deps.sh --test
	@tools/check.sh

test-all:
	@tools/install-deps.sh --test
	@HELIX_SWEEPS=all tools/check.sh

package: build
	@tools/install-deps.sh --package
	@tools/package.sh $(BUILD) build/packages
	@tools/tarball.py $(BUILD) build/packages

arm64:
	@tools/install-deps.sh
	@JOBS=$(JOBS) tools/arm64.sh

ROOM ?=
check:
	@[ -n "$(ROOM)" ] && [ -d "src/$(ROOM)" ] || { echo "make check ROOM=$$(ls src | grep -v '\.' | paste -sd'|')" >&2; exit 2; }
	@tools/install-deps.sh --test
	@mkdir -p build
	@cmake --preset dev >build/dev.log 2>&1 || { tail -20 build/dev.log; exit 1; }
	@cmake --build --preset dev --target helix_$(ROOM)_test -j $(JOBS) -- --quiet
	@ctest --preset dev -j $(JOBS) -R '^helix_$(ROOM)_test'

bench:
	@tools/install-deps.sh --test
	@cmake --preset bench >/dev/null && cmake --build --preset bench -j $(JOBS) --target \
		helix engine_bench grammar_bench plan_bench sse_load sim_bench takeover_bench
	@bench/run.sh build/bench/bin

HOURS ?= 8
sim-night:
	@tools/install-deps.sh --test
	@cmake --preset release $(CMAKE_ARGS) >/dev/null && cmake --build --preset release --target helix_cluster_fuzz -j $(JOBS)
	@python3 tests/cluster_fuzz/night.py $(BUILD)/bin/helix_cluster_fuzz $(HOURS) $(SEED)

N ?= 1000
chaos: build
	@python3 tests/chaos/chaos.py $(BUILD)/bin/helix --faults $(N) $(if $(KILL),--kill $(KILL)) $(if $(SEED),--seed $(SEED)) $(if $(MODEL),--model $(MODEL))

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

format-check:
	@git ls-files '*.h' '*.cc' | xargs clang-format --dry-run -Werror

tidy:
	@tools/tidy.py $(BUILD)

layers:
	@python3 tools/check_layers.py .

words:
	@python3 tools/check_words.py .

asan:
	@cmake --preset asan >/dev/null && cmake --build --preset asan -j $(JOBS) && ctest --preset asan

# Where threads work together: the engine's ranks, HTTP and the transport.
tsan:
	@cmake --preset tsan >/dev/null && cmake --build --preset tsan -j $(JOBS) --target helix_engine_test helix_net_test
	@ctest --preset tsan -R 'helix_(engine|net)_test'

# Each fuzzer for MINUTES, as many at a time as there are cores.
MINUTES ?= 10
fuzz:
	@tools/install-deps.sh --fuzz
	@cmake --preset fuzz >/dev/null && cmake --build --preset fuzz -j $(JOBS) --target fuzzers
	@fuzz/run.py build/fuzz --minutes $(MINUTES)

web:
	@web/build.sh

clean:
	@rm -rf build
