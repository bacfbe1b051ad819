# The only entry point: people and CI call the same targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help manifests up test test-wasm test-istio compatibility test-long tsan miri bench-envoy bench-cpu bench-scale deps istio kube module faulty previous wasm wasm-faulty build lint fmt

KUBE ?= stub
IDENTITY ?= Impersonate
FILTER ?= module
LAB ?= .lab
BUILT ?= target/debug
SCRIPTS := testenv/scripts

help: ## What there is to call
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

up: ## Start the lab until Ctrl-C; KUBE=real puts real kube-apiservers behind it, IDENTITY=RequestHeader tells them as a front proxy, FILTER=wasm runs portcullis.wasm
	@case "$(KUBE)" in stub|real) ;; *) echo "KUBE is stub or real, not $(KUBE)" >&2; exit 2 ;; esac
	case "$(IDENTITY)" in Impersonate|RequestHeader) ;; *) echo "IDENTITY is Impersonate or RequestHeader, not $(IDENTITY)" >&2; exit 2 ;; esac
	case "$(FILTER)" in module|wasm) ;; *) echo "FILTER is module or wasm, not $(FILTER)" >&2; exit 2 ;; esac
	SCRIPTS="$(SCRIPTS)" exec testenv/scripts/up "$(KUBE)" "$(IDENTITY)" "$(FILTER)" "$(LAB)" "$(BUILT)"

test: ## Everything that must pass: format, lints, unit, integration and end-to-end tests
	@$(SCRIPTS)/test

test-wasm: ## The end-to-end tests with portcullis.wasm in the place of the module, but for those that docs/compatibility.md names
	@. $(SCRIPTS)/versions.env
	$(SCRIPTS)/install-envoy $$ENVOY_VERSION $$ENVOY_COMPAT_VERSIONS
	$(SCRIPTS)/build-kube || [ $$? = 3 ]
	$(MAKE) --no-print-directory wasm wasm-faulty build
	$(SCRIPTS)/test-wasm

test-istio: ## The gateways of Istio's: builds istiod and runs the tests that need it
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/build-istio
	$(MAKE) --no-print-directory module wasm build
	CI=true cargo test --workspace --test kube -- istio::

compatibility: ## Find out which feature works on which Envoy with which build of the filter, and write the table; the better part of an hour
	@$(MAKE) --no-print-directory deps module faulty wasm wasm-faulty build
	target/debug/portcullis-compatibility

test-long: ## Cases that take longer than 30 seconds
	@$(MAKE) --no-print-directory deps module wasm build
	cargo test --workspace -- --ignored

tsan: ## What workers share, by many threads under ThreadSanitizer; needs a nightly Rust
	@$(SCRIPTS)/tsan

miri: ## The unsafe code of the ABI crate under Miri; needs a nightly Rust
	@$(SCRIPTS)/miri

bench-envoy: ## Count the instructions of a whole request in Envoy, with the gateway and without it; needs valgrind
	@$(MAKE) --no-print-directory module wasm build
	cargo build --profile module -p envoy-abi --example idle
	target/debug/portcullis-bench

bench-cpu: ## Measure CPU time of a request in Envoy: without the gateway, with the module, with portcullis.wasm
	@$(MAKE) --no-print-directory module wasm build
	target/debug/portcullis-bench cpu

bench-scale: ## Measure 100 and 1,000 clusters on a real Envoy: cold push, one edit, memory
	@$(MAKE) --no-print-directory module
	cargo build --release -p portcullis -p portcullis-bench
	target/release/portcullis-bench scale

deps: ## Install the real Envoys and build the real Kubernetes and istiod into .deps
	@$(SCRIPTS)/require
	. $(SCRIPTS)/versions.env
	$(SCRIPTS)/install-envoy $$ENVOY_VERSION $$ENVOY_COMPAT_VERSIONS
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/build-oracle
	$(SCRIPTS)/fetch-definitions
	$(SCRIPTS)/build-declared
	$(SCRIPTS)/build-istio

istio: ## Build istiod into .deps, for the tests of gateways of Istio's; takes minutes the first time
	@$(SCRIPTS)/build-istio

module: ## Build libportcullis.so as Envoy is to load it
	@echo "building the module" >&2
	cargo build --profile module -p portcullis-dynamic-module

faulty: ## Build the module that panics on demand, for tests
	@$(SCRIPTS)/build-variant fault --features fault-injection

manifests: ## Write the generated parts of deploy/kubernetes anew
	@$(MAKE) --no-print-directory build
	target/debug/portcullis crd > deploy/kubernetes/base/crd.yaml

previous: ## Build the module that reads the previous version of the configuration only, for tests
	@$(SCRIPTS)/build-variant previous --features previous-version

wasm: ## Build portcullis.wasm, which Envoys run that load no dynamic modules; needs a clang for wasm32, or Debian's is unpacked into .deps
	@$(SCRIPTS)/build-wasm

wasm-faulty: ## Build the portcullis.wasm that panics on demand, for tests
	@$(SCRIPTS)/build-wasm target/wasm/faulty.wasm --features fault-injection

build: ## Build everything else
	@cargo build --workspace

lint: ## Format and lints, warnings denied
	@cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(SCRIPTS)/build-wasm lint
	# The fuzz targets are a workspace apart and must not rot; that path keeps libFuzzer itself from being built.
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a cargo check --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz

fmt: ## Format
	@cargo fmt --all
