# The everyday verbs. `make help` lists them; each works alone on a fresh Debian 12.
SHELL := /bin/bash

.DEFAULT_GOAL := help
.PHONY: help packages build demo test check check-api check-apps check-oidc soak format format-check tidy layering asan tsan fuzz \
        bench dist install clean kube-up kube-down kube-demo kube-test web

help: ## list these verbs
	@printf 'Divvy: shares GPUs.\n\n'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | \
	  awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

packages: ## install what is missing from packages.txt
	@tools/install-packages

build: packages ## build everything (preset dev)
	@tools/build dev

# The console takes a while to install for what is over in a minute; who stays gets it.
demo: ## see Divvy manage simulated GPUs (KEEP=1 leaves them, and the console, for you to play with)
	@tools/install-packages --without Browser $(if $(KEEP),,--without Console)
	@tools/build demo demo_programs
	@KEEP=$(KEEP) tools/demo build/demo

test: packages ## build and run every test; needs no GPU
	@tools/build dev
	@ctest --preset dev

check: format-check tidy asan ## format, tidy, layering, every test under the address sanitizer

soak: tsan fuzz check-api check-apps check-oidc ## the long checks: thread sanitizer, fuzzers, requests made from the API's description

check-api: packages ## requests that schemathesis makes from the API's description, right and wrong ones
	@tools/build dev programs
	@tools/check-api build/dev

check-apps: packages ## sessions with the real JupyterLab and TensorBoard, in a browser
	@tools/build dev programs
	@tools/check-apps build/dev

check-oidc: packages ## sign a browser and a command in with a real provider of OpenID Connect
	@tools/build dev programs
	@tools/check-oidc build/dev

format: packages ## rewrite the sources in the project's format
	@git ls-files '*.h' '*.cc' '*.inc' | xargs clang-format-19 -i

format-check: packages ## refuse sources that `make format` would change
	@git ls-files '*.h' '*.cc' '*.inc' | xargs clang-format-19 --dry-run -Werror
	@echo "format: clean"

layering: packages ## refuse an include that the table of rooms forbids
	@cmake -DSOURCE=$(CURDIR) -P cmake/check_includes.cmake

tidy: packages layering ## clang-tidy over what changed since its last clean run
	@cmake --preset tidy >/dev/null
	@tools/tidy build/tidy

asan: packages ## every test under the address and undefined-behaviour sanitizers
	@tools/build asan
	@ctest --preset asan

tsan: packages ## every test under the thread sanitizer
	@tools/build tsan
	@ctest --preset tsan

fuzz: packages ## each fuzzer for a short while
	@tools/build fuzz fuzzers
	@ctest --preset fuzz

bench: packages ## benchmarks on the simulated driver
	@tools/build release benches
	@tools/bench build/release

dist: packages ## a tarball that runs with nothing installed (dist/)
	@tools/build release programs
	@tools/dist build/release

install: packages ## install under /usr with the unit for systemd (as root; DESTDIR=FOLDER for packages)
	@tools/build release programs
	@tools/install build/release

web: packages ## check and test the console alone: types, lint, units, browser
	@tools/build dev demo_programs
	@ctest --preset dev -R '^console\.'

kube-up: packages ## a real Kubernetes here: two nodes with simulated GPUs and Divvy (as root; needs Go)
	@tools/build dev programs
	@tools/kube-cluster up
	@tools/kube-install build/dev

kube-down: ## put that Kubernetes away
	@tools/kube-cluster down

kube-demo: packages ## see pods share simulated GPUs (KEEP=1 leaves the cluster for you to play with)
	@tools/build dev programs
	@KEEP=$(KEEP) tools/kube-demo build/dev

kube-test: packages ## the tests that need a real Kubernetes (as root; needs Go)
	@tools/build dev
	@ctest --preset kube

clean: ## remove build/ and dist/
	@rm -rf build dist
