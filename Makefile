# Every verb installs what it needs itself: on a fresh Debian 12 machine `make test` is enough.
PREFIX ?= /usr/local
JOBS ?= $(shell echo $$((2 * $$(nproc) + 1)))
FUZZ_SECONDS ?= 60
WERROR := $(if $(CI),true,false)

BUILD = scripts/build/build
OPTIONS = -Dwerror=$(WERROR) -Dprefix=$(PREFIX)
EVERYTHING = $(BUILD) everything --sets "build test" $(OPTIONS)
CONFIGURE = scripts/build/configure
TEST = scripts/check/test-report --jobs $(JOBS)

.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\#.*/\1/p' Makefile)

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

run: ## build the program and start it with a dashboard and demonstration data
	@TIDEMARK_STEPS=4 $(BUILD) program $(OPTIONS)
	@scripts/build/start

build: ## build/tidemark, build/libtidemark.so, build/libtidemark.a, the SQLite extension
	@$(BUILD) libraries $(OPTIONS)

duckdb: ## download DuckDB's library, which the lake and duckdb: stores open at run time
	@scripts/setup/npm duckdb

setup: ## install what build and tests need: Debian packages, npm packages into build/deps
	@scripts/setup/setup build test

test: ## every test
	@$(EVERYTHING)
	@$(TEST) build

test-quick: ## the tests that take seconds
	@$(EVERYTHING)
	@$(TEST) build --suite quick

grid: ## the fault grid: every state that one party keeps about another, against every fault
	@$(EVERYTHING)
	@tests/grid/run --json build/grid.json

test-postgres: ## the conformance tests on PostgreSQL 14 to 18
	@$(EVERYTHING)
	@scripts/setup/npm postgres
	@JOBS=$(JOBS) scripts/check/test-postgres build

test-ha: ## PostgreSQL under Patroni: switchover, kill -9, a cut network, under load (root)
	@$(BUILD) program --sets "build ha" $(OPTIONS)
	@scripts/setup/pgbouncer
	@tests/ha/run
	@tests/ha/run --asynchronous --faults switchover,kill
	@tests/ha/run --pooler transaction
	@tests/ha/run --pooler session
	@tests/ha/run --pooler transaction --pgbouncer build/deps/pgbouncer/pgbouncer --faults switchover,kill
	@tests/ha/run --pooler session --pgbouncer build/deps/pgbouncer/pgbouncer --faults switchover,kill

check: ## format, clang-tidy, cppcheck, gcc -fanalyzer, lints, models
	@$(BUILD) everything --sets "build test check" $(OPTIONS)
	@scripts/check/check

clang-pass: ## clang reads every source, with warnings as errors; layout, clang-tidy without its analyzer
	@$(BUILD) everything --sets "build test check" $(OPTIONS)
	@scripts/check/format
	@scripts/check/clang-pass
	@scripts/check/tidy --fast

format: ## lay out the source with clang-format
	@scripts/setup/setup check
	@scripts/check/sources | xargs clang-format -i

asan: ## every test under the address and undefined-behaviour sanitizers
	@CC=clang $(BUILD) everything --sets "build test check" --dir build/asan -Dwerror=true -Dbench=false -Doptimization=1 -Db_lundef=false -Db_sanitize=address,undefined
	@$(TEST) build/asan --slower 4

tsan: ## every test under the thread sanitizer
	@CC=clang $(BUILD) everything --sets "build test check" --dir build/tsan -Dwerror=true -Dbench=false -Doptimization=1 -Db_lundef=false -Db_sanitize=thread
	@$(TEST) build/tsan --slower 8 --fixed-addresses

bench: ## the benchmarks, one after the other, some beside other servers
	@$(BUILD) everything --sets "build test bench" $(OPTIONS)
	-@scripts/bench/bench-peers --install
	@scripts/bench/run-each build/bench
	@scripts/bench/bench-work --rounds 3 --seconds 2

bench-long: ## what a record costs beside 10^8 others: long, tens of GB of disk
	@$(EVERYTHING)
	@build/bench/feed_scale --long

fuzz: ## every fuzz target for FUZZ_SECONDS (60)
	@CC=clang $(BUILD) fuzzers --sets "build test check" --dir build/fuzzers -Dfuzz=true -Doptimization=1 \
	    -Db_lundef=false -Db_sanitize=address,undefined
	@scripts/check/fuzz build/fuzzers/fuzz $(FUZZ_SECONDS)

soak: ## simulations and crash loops at length
	@$(EVERYTHING)
	@TIDEMARK_SOAK=1 $(TEST) build --suite soak --slower 0

reference: ## write docs/reference and docs/internals/proof.md from the tables, headers, services, schemas and tests
	@$(BUILD) libraries $(OPTIONS)
	@scripts/docs/make-reference build/tidemark
	@scripts/docs/make-config build/tidemark
	@scripts/docs/make-c-api
	@scripts/docs/make-services
	@scripts/docs/make-schema build/tidemark
	@scripts/docs/make-proof

screenshot: ## take the pictures of docs/images again: the demonstration in a browser
	@$(EVERYTHING)
	@scripts/docs/make-screenshot

install: build ## install below PREFIX (/usr/local), or below DESTDIR
	@meson install -C build --no-rebuild --quiet

deb: ## Debian packages in build/deb, checked by lintian
	@scripts/setup/setup build deb
	@scripts/release/make-deb

deb-test: ## install, start, upgrade and purge the packages of build/deb in a throw-away machine (root)
	@scripts/setup/setup build deb
	@scripts/release/make-deb --if-older
	@scripts/release/deb-machine $(CURDIR)/tests/packaging/deb_test.sh $(CURDIR)/build/deb

dist: ## a tarball for any Linux with this glibc or a later one, in build/dist
	@scripts/setup/setup build deb
	@scripts/release/make-dist

image: dist ## the same as an OCI image, made without a container engine
	@scripts/release/make-image

release: ## tarball, image, packages, list of parts, notes and checksums, in build/dist
	@scripts/setup/setup build deb
	@scripts/release/make-release

release-again: release ## build the release again in another directory without ccache, and compare the bytes
	@scripts/release/dist-again --release

release-aarch64: ## the release for aarch64 in build/dist/aarch64, cross-built in a disposable Debian (root)
	@scripts/setup/packages --install deb
	@scripts/release/cross-machine

dist-test: image ## start the tarball and the image on nothing but glibc (root)
	@scripts/release/dist-test
	@scripts/release/image-test

fresh-machine: ## README's commands on a fresh Debian 12 (root)
	@scripts/setup/packages --install deb
	@scripts/release/fresh-machine --release bookworm

release-check: ## every gate of a release on this commit; --only by scripts/release/release-check
	@scripts/release/release-check

clean: ## remove what was built; downloads stay in build/deps
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} +
