# Every verb does its own set-up: on a fresh Debian 12 machine `make test` is enough.
PREFIX ?= /usr/local
JOBS ?= $(shell echo $$((2 * $$(nproc) + 1)))
FUZZ_SECONDS ?= 60
WERROR := $(if $(CI),true,false)

CONFIGURE = scripts/configure
TEST = scripts/test-report --jobs $(JOBS)

.PHONY: help setup build run test test-quick check format asan tsan bench bench-long fuzz soak reference screenshot install deb deb-test clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: ## install what the build needs: Debian packages, and SQLite and DuckDB into build/deps
	@scripts/setup

build: setup ## build/tidemark, build/libtidemark.so, build/libtidemark.a, tests and benchmarks
	@$(CONFIGURE) build -Dwerror=$(WERROR) -Dprefix=$(PREFIX)
	@scripts/quietly ninja -C build

run: build ## see it at work: a dashboard over agents, work and faults on request
	@build/tidemark up --demo

test: build ## every test
	@$(TEST) build

test-quick: build ## the tests that take seconds
	@$(TEST) build --suite quick

check: build ## format, clang-tidy, cppcheck, gcc -fanalyzer, include direction
	@scripts/check

format: setup ## lay out the source with clang-format
	@scripts/sources | xargs clang-format -i

asan: setup ## every test under the address and undefined-behaviour sanitizers
	@CC=clang $(CONFIGURE) build/asan -Dwerror=true -Dbench=false -Doptimization=1 -Db_lundef=false -Db_sanitize=address,undefined
	@scripts/quietly ninja -C build/asan
	@$(TEST) build/asan --slower 4

tsan: setup ## every test under the thread sanitizer
	@CC=clang $(CONFIGURE) build/tsan -Dwerror=true -Dbench=false -Doptimization=1 -Db_lundef=false -Db_sanitize=thread
	@scripts/quietly ninja -C build/tsan
	@$(TEST) build/tsan --slower 8 --fixed-addresses

bench: build ## the benchmarks, one after the other, some beside the servers of others
	-@scripts/bench-peers --install
	@scripts/run-each build/bench
	@scripts/bench-work --rounds 3 --seconds 2

bench-long: build ## what a record costs beside 10^8 others: long, tens of GB of disk
	@build/bench/feed_scale --long

fuzz: setup ## every fuzz target for FUZZ_SECONDS (60)
	@CC=clang $(CONFIGURE) build/fuzzers -Dtests=false -Dbench=false -Dfuzz=true -Doptimization=1 \
	    -Db_lundef=false -Db_sanitize=address,undefined
	@scripts/quietly ninja -C build/fuzzers
	@scripts/fuzz build/fuzzers/fuzz $(FUZZ_SECONDS)

soak: build ## simulations and crash loops at length
	@TIDEMARK_SOAK=1 $(TEST) build --suite soak --slower 0

reference: build ## write docs/reference from the program's tables, the headers, the services and the schemas
	@scripts/make-reference build/tidemark
	@scripts/make-config build/tidemark
	@scripts/make-c-api
	@scripts/make-services
	@scripts/make-schema build/tidemark

screenshot: build ## take the pictures of docs/images anew: the demonstration in a browser
	@scripts/make-screenshot

install: build ## install below PREFIX (/usr/local), or below DESTDIR
	@meson install -C build --no-rebuild --quiet

deb: ## Debian packages in build/deb, looked at by lintian
	@scripts/setup deb
	@scripts/make-deb

deb-test: ## install, start, upgrade and purge the packages of build/deb on a machine that is thrown away (root)
	@scripts/setup deb
	@scripts/make-deb --if-older
	@scripts/deb-machine $(CURDIR)/tests/packaging/deb_test.sh $(CURDIR)/build/deb

clean: ## remove everything that was built; what setup obtained stays
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} +
