# The entry point for people and CI. `make` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help manifests up unit test test-all test-one test-wasm test-store test-store-faults test-store-upgrade test-onboard test-objects test-tokens test-limits test-istio test-envoy-gateway test-clients test-cmd test-conformance kubernetes-versions test-otel test-helm test-dashboard test-console screenshots compatibility test-long test-storms tsan miri bench bench-check bench-restart bench-instances bench-connections bench-soak bench-envoy bench-cpu bench-scale images test-images deb test-deb dist deps istio otel helm kube module faulty wasm wasm-faulty build lint fmt

KUBE ?= stub
IDENTITY ?= Impersonate
FILTER ?= module
STORE ?= directory
LAB ?= .lab
BUILT ?= target/debug
SCRIPTS := testenv/scripts

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

up: ## Run the lab until Ctrl-C; KUBE=real for real kube-apiservers, IDENTITY=RequestHeader for front-proxy mode, FILTER=wasm for portcullis.wasm, STORE=apiserver for objects in a kube-apiserver of their own
	@case "$(KUBE)" in stub|real) ;; *) echo "KUBE is stub or real, not $(KUBE)" >&2; exit 2 ;; esac
	case "$(IDENTITY)" in Impersonate|RequestHeader) ;; *) echo "IDENTITY is Impersonate or RequestHeader, not $(IDENTITY)" >&2; exit 2 ;; esac
	case "$(FILTER)" in module|wasm) ;; *) echo "FILTER is module or wasm, not $(FILTER)" >&2; exit 2 ;; esac
	case "$(STORE)" in directory|apiserver) ;; *) echo "STORE is directory or apiserver, not $(STORE)" >&2; exit 2 ;; esac
	SCRIPTS="$(SCRIPTS)" exec testenv/scripts/up "$(KUBE)" "$(IDENTITY)" "$(FILTER)" "$(LAB)" "$(BUILT)" "$(STORE)"

unit: ## Run the unit tests: no Envoy, no network, seconds when built
	@# Properties are tried with few inputs here, and with many by make test.
	PROPTEST_CASES="$${PROPTEST_CASES:-16}" cargo test --workspace --lib --bins --quiet

test-one: ## Run the tests whose names contain NAME, as in make test-one NAME=stub::changes; with Envoy where they need it
	@test -n "$(NAME)" || { echo "usage: make test-one NAME=PART_OF_A_NAME" >&2; exit 2; }
	$(SCRIPTS)/install-envoy
	$(MAKE) --no-print-directory module build
	$(SCRIPTS)/run-tests $(NAME)

test: ## Run format, lints, unit, integration and end-to-end tests; the parts of testenv/parts.json have targets of their own
	@$(SCRIPTS)/test

test-all: ## Run everything that must pass, as CI does: make test, its parts, each supported Envoy, and make bench-check SHORT=1
	@$(SCRIPTS)/test all

test-store: ## Run the tests of the store of objects, with real etcds and kube-apiservers
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/build-etcd-tools
	$(MAKE) --no-print-directory module build
	CI=true PORTCULLIS_ETCD_TOOLS=required $(SCRIPTS)/run-tests --part store

test-store-faults: ## Kill each part of a store of three members while clients write, and print what was lost and for how long; two minutes
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(MAKE) --no-print-directory module build
	CI=true cargo test --workspace --test kube -- --ignored --nocapture store::kills

test-store-upgrade: ## Build three releases of Kubernetes, and upgrade a store from one to the next on its data
	@$(SCRIPTS)/install-envoy
	for version in 1.32.13 1.34.4 1.37.2; do $(SCRIPTS)/build-kube-version $$version; done
	$(MAKE) --no-print-directory module build
	CI=true cargo test --workspace --test kube -- --ignored --nocapture store::upgrade

test-onboard: ## Run the tests of portcullis onboard and offboard, with a real kube-apiserver
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(MAKE) --no-print-directory module build
	CI=true $(SCRIPTS)/run-tests --part onboard

test-objects: ## Run the tests of objects in a kube-apiserver (how they are read, their status), and of commands of the documents
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(MAKE) --no-print-directory module build
	CI=true $(SCRIPTS)/run-tests --part objects

test-tokens: ## Run the tests of tokens that the gateway verifies itself, and of constrained impersonation, with a real kube-apiserver
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(MAKE) --no-print-directory module build
	CI=true $(SCRIPTS)/run-tests --part tokens

test-limits: ## Run the tests of limits that several Envoys share, with real stores
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/install-redis
	$(MAKE) --no-print-directory module wasm build
	CI=true $(SCRIPTS)/run-tests --part limits

test-wasm: ## Run the end-to-end tests with portcullis.wasm instead of the module, except those that docs/compatibility.md lists
	@. $(SCRIPTS)/versions.env
	$(SCRIPTS)/install-envoy $$ENVOY_VERSION $$ENVOY_COMPAT_VERSIONS
	$(SCRIPTS)/build-kube || [ $$? = 3 ]
	$(MAKE) --no-print-directory wasm wasm-faulty build
	$(SCRIPTS)/test-wasm

test-istio: ## Build istiod and run the tests with Istio gateways
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/build-istio
	$(MAKE) --no-print-directory module wasm build
	CI=true $(SCRIPTS)/run-tests --part istio

test-envoy-gateway: ## Build Envoy Gateway and run the tests with a gateway of it; minutes the first time
	@. $(SCRIPTS)/versions.env
	$(SCRIPTS)/install-envoy $$ENVOY_VERSION $$ENVOY_COMPAT_VERSIONS
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/build-envoy-gateway
	$(MAKE) --no-print-directory module build
	CI=true PORTCULLIS_ENVOY_GATEWAY=required $(SCRIPTS)/run-tests --part envoy-gateway

test-clients: ## Build programs with the client libraries of Go, Rust, Python, JavaScript and Java, and run them past the gateway and through it; needs go, npm and mvn
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/build-helm
	$(SCRIPTS)/build-clients
	$(MAKE) --no-print-directory module build
	CI=true PORTCULLIS_CLIENTS=required $(SCRIPTS)/run-tests --part clients

test-cmd: ## Run Kubernetes' own scripts test/cmd past the gateway and through it, in both modes
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/build-test-cmd
	$(MAKE) --no-print-directory module build
	CI=true PORTCULLIS_TEST_CMD=required $(SCRIPTS)/run-tests --part cmd

test-conformance: ## Run the conformance suite of the Gateway API against a real kube-apiserver and the control plane; UPDATE_DOCS=1 writes its report
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/fetch-definitions
	$(SCRIPTS)/build-conformance
	$(MAKE) --no-print-directory module build
	CI=true PORTCULLIS_CONFORMANCE=required $(SCRIPTS)/run-tests --part conformance

kubernetes-versions: ## Build other releases of kube-apiserver and kubectl, and run the tests about Kubernetes with each; more than an hour
	@$(SCRIPTS)/kubernetes-versions

test-otel: ## Build the OpenTelemetry collector and run the tests of traces, with a real kube-apiserver and etcd
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/build-otel
	$(MAKE) --no-print-directory module wasm build
	CI=true PORTCULLIS_OTEL=required cargo test --workspace --test stub --test kube -- traces::

test-helm: ## Build Helm and run the tests of the chart, with a real kube-apiserver
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/fetch-definitions
	$(SCRIPTS)/build-helm
	$(MAKE) --no-print-directory module build
	CI=true PORTCULLIS_HELM=required $(SCRIPTS)/run-tests --part chart

test-dashboard: ## Check the types of the Grafana dashboard by @grafana/schema; needs npm
	@$(SCRIPTS)/check-dashboard

test-console: ## Test the console in Debian's Chromium, with axe-core; needs apt-get and npm
	@$(SCRIPTS)/test-console

screenshots: ## Take the pictures of the console in docs/images
	@UPDATE_SCREENSHOTS=1 $(SCRIPTS)/test-console screenshots

compatibility: ## Test each feature on each Envoy with each build of the filter, and write the table; almost an hour
	@$(MAKE) --no-print-directory deps module faulty wasm wasm-faulty build
	target/debug/portcullis-compatibility

test-long: ## Run the tests that take longer than 30 seconds
	@$(MAKE) --no-print-directory deps module wasm build
	cargo test --workspace -- --ignored

test-storms: ## Run the storms on limits of all gateways and on fair queues, and print what they measure; half an hour of a machine with nothing else to do
	@$(SCRIPTS)/install-envoy
	$(SCRIPTS)/build-kube
	$(MAKE) --no-print-directory module build
	cargo test --workspace --test stub --test kube -- --ignored --nocapture --test-threads 1 limit_storms:: fair_storms:: sources::limits:: mice_keep

tsan: ## Test the state that workers share under ThreadSanitizer; needs a nightly Rust
	@$(SCRIPTS)/tsan

miri: ## Test the unsafe code of the ABI crate under Miri; needs a nightly Rust
	@$(SCRIPTS)/miri

bench: ## Measure the gateway beside a bare Envoy, Envoy with Lua, HAProxy and nginx, and write the table, its picture and README's figures; half an hour; needs valgrind
	@$(SCRIPTS)/install-peers || [ $$? = 3 ]
	$(MAKE) --no-print-directory module wasm build
	target/debug/portcullis-bench compare --write
	target/debug/portcullis-bench watches --write

bench-check: ## Fail when a request costs more instructions, in proportion to a bare Envoy, than testenv/bench/ratios.json says; SHORT=1 as test-all runs it, UPDATE=1 to write the file; needs valgrind or apt-get
	@$(SCRIPTS)/install-valgrind
	$(MAKE) --no-print-directory module $(if $(SHORT),,wasm) build
	PATH="$$PWD/.deps/valgrind:$$PATH" target/debug/portcullis-bench check $(if $(SHORT),--short) $(if $(UPDATE),--update)

bench-restart: ## Restart one of three servers behind HAProxy on layer 4 and behind the gateway, and draw each server's share
	@$(SCRIPTS)/install-peers
	$(MAKE) --no-print-directory module build
	target/debug/portcullis-bench restart --write

bench-instances: ## Flood, edit and limit one instance, and measure answers and edits of another one of the same control plane; ten minutes
	@$(MAKE) --no-print-directory module
	cargo build --release -p portcullis -p portcullis-bench -p portcullis-stub-apiserver
	target/release/portcullis-bench instances --write

bench-connections: ## Count the connections of servers that 2,000 clients make, in each identity mode
	@$(MAKE) --no-print-directory module build
	target/debug/portcullis-bench converge --write

bench-soak: ## Run mixed traffic, edits, restarts and rotations for half an hour (MINUTES=), and draw memory, descriptors and answering times
	@$(MAKE) --no-print-directory module build
	target/debug/portcullis-bench soak --minutes $${MINUTES:-30} --write

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

images: ## Build the images of the Dockerfile from what this machine compiles, with podman; needs root and apt-get. ENGINE=docker for an own engine
	@variables=; [ "$${ENGINE:-podman}" != podman ] || variables="$$($(SCRIPTS)/install-podman)"
	eval "$$variables"
	deploy/images/build

test-images: ## Build the images, and run and upgrade docker-compose.yml from them; needs root, apt-get and the ports 6443, 9080 and 9081
	@$(MAKE) --no-print-directory images
	eval "$$($(SCRIPTS)/install-podman)"
	VERSION=$$(sed -n 's/^version = "\(.*\)"/\1-next/p' Cargo.toml | head -n 1) deploy/images/build control-plane gateway
	$(SCRIPTS)/test-images

deb: ## Build the Debian package in target/dist
	@deploy/debian/build

test-deb: ## Build the Debian package, and install and run it under systemd in podman; needs root and apt-get
	@deploy/debian/build
	$(SCRIPTS)/test-deb

dist: ## Build the release's files in target/dist: tarballs, package, SBOMs, SHA256SUMS; ARCHITECTURES="amd64 arm64" cross-compiles
	@deploy/release/build $(ARCHITECTURES)

deps: ## Install the real Envoys and build the real Kubernetes and istiod into .deps
	@$(SCRIPTS)/require
	. $(SCRIPTS)/versions.env
	$(SCRIPTS)/install-envoy $$ENVOY_VERSION $$ENVOY_COMPAT_VERSIONS
	$(SCRIPTS)/build-kube
	$(SCRIPTS)/build-oracle
	$(SCRIPTS)/fetch-definitions
	$(SCRIPTS)/build-declared
	$(SCRIPTS)/install-prometheus || [ $$? = 3 ]
	$(SCRIPTS)/install-redis || [ $$? = 3 ]
	$(SCRIPTS)/install-dnsmasq || [ $$? = 3 ]
	$(SCRIPTS)/install-chromium || [ $$? = 3 ]
	$(SCRIPTS)/build-istio

otel: ## Build the OpenTelemetry collector into .deps, for the tests of traces; a minute or two the first time
	@$(SCRIPTS)/build-otel

helm: ## Build Helm into .deps, for the tests of the chart; minutes the first time
	@$(SCRIPTS)/build-helm

istio: ## Build istiod into .deps, for the tests with Istio gateways; takes minutes the first time
	@$(SCRIPTS)/build-istio

module: ## Build libportcullis.so, the dynamic module
	@echo "building the module" >&2
	cargo build --profile module -p portcullis-dynamic-module

faulty: ## Build the module that panics on demand, for tests
	@$(SCRIPTS)/build-variant fault --features fault-injection

manifests: ## Regenerate the generated parts of deploy/kubernetes and deploy/helm
	@$(MAKE) --no-print-directory build
	target/debug/portcullis crd > deploy/kubernetes/base/crd.yaml
	cd deploy/kubernetes
	cp base/crd.yaml base/control-plane/rbac.yaml components/monitoring/rules.yaml components/monitoring/dashboard.json ../helm/portcullis/files/
	for part in gateway-api instances policies; do cp components/$$part/rbac.yaml ../helm/portcullis/files/$$part-rbac.yaml; done

wasm: ## Build portcullis.wasm, for Envoys without dynamic modules; unpacks Debian's clang into .deps if there is none for wasm32
	@$(SCRIPTS)/build-wasm

wasm-faulty: ## Build the portcullis.wasm that panics on demand, for tests
	@$(SCRIPTS)/build-wasm target/wasm/faulty.wasm --features fault-injection

build: ## Build the workspace: control plane, lab, test tools
	@# With the tests: alone, programs would be compiled twice, once for each set of features.
	cargo build --workspace --bins --tests --examples --quiet

lint: ## Check format, lints and wording; warnings are errors
	@$(SCRIPTS)/wording
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	# As for a release: without the features of dependencies that only tests ask for.
	cargo check --quiet --workspace --bins
	$(SCRIPTS)/build-wasm lint
	# The fuzz targets are a separate workspace; this path keeps libFuzzer itself from being built.
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a cargo check --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz

fmt: ## Format the code
	@cargo fmt --all
