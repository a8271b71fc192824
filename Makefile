# Everything a person or CI does with this repository. `make help` lists the targets.
# Works on a bare Debian 12 with Go, make and git: the rest is installed on first use (Debian packages when root,
# pinned Go tools into the cache folder). Every target can be repeated.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# One target after the other: they share two cores and one cluster.
.NOTPARALLEL:

# The toolchain that is installed is the one that is used; never download another one behind the user's back.
export GOTOOLCHAIN := local
export GOWORK := off
# One way of compiling for everything but the race detector: Kubernetes' client is compiled once, not once per target.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false

# What `version` prints. The date is the commit's, so that the same commit gives the same bytes.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null || echo v0.0.0-dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DATE ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)

STEP := hack/step.sh
# Saves a twelfth of the time to compile: the compiler's own memory is collected less often.
COMPILING := env GOGC=400
RELEASE := $(COMPILING) go run -buildvcs=false ./hack/release
STAMP := -version '$(VERSION)' -commit '$(COMMIT)' -date '$(DATE)'

##@ Start here

.PHONY: demo
demo: build cluster-up ## Run the whole drill on a real cluster and leave it up (warm: 3 min; cold: about 40 min)
	@KUBE_LAB_HOME="$(CURDIR)/build/demo/kube-lab" hack/demo.sh

.PHONY: test
test: e2e-check verify unit e2e ## Everything CI runs: verify, unit, race and script tests, end to end (warm: 30 min; cold: about 72 min)

##@ Build

.PHONY: build
build: ## Build the plugin and the node agent into build/bin
	@$(STEP) "building the plugin and the node agent into build/bin (first time, about 3 min)" \
	  $(RELEASE) build $(STAMP) -o build/bin

.PHONY: dist
dist: ## Pack release archives and render krew manifests into dist
	@$(STEP) "packing archives and krew manifests into dist (first time, about 8 min)" \
	  $(RELEASE) dist $(STAMP) -o dist

.PHONY: generate
generate: ## Renew the generated files: .krew.yaml and docs/reference
	@$(STEP) "writing .krew.yaml and docs/reference" hack/generate.sh .

##@ Check

.PHONY: verify
verify: verify-tidy verify-generated lint verify-imports ## go.mod tidy, generated files current, lint, import directions; changes nothing

.PHONY: verify-tidy
verify-tidy:
	@$(STEP) "checking that go.mod and go.sum are tidy" go mod tidy -diff
	@$(STEP) "checking that test/cluster/go.mod and go.sum are tidy" go -C test/cluster mod tidy -diff

.PHONY: verify-generated
verify-generated:
	@$(STEP) "checking that generated files are current" hack/verify-generated.sh

.PHONY: lint
lint: ## Run golangci-lint over both modules
	@linter=$$(hack/tools/install.sh golangci-lint); \
	 $(STEP) "golangci-lint (first time, about 2 min)" "$$linter" run --build-tags e2e ./...; \
	 cd test/cluster && ../../$(STEP) "golangci-lint in test/cluster" "$$linter" run --config ../../.golangci.yml --build-tags cluster ./...

.PHONY: verify-imports
verify-imports:
	@$(STEP) "checking import directions" go test -count=1 ./test/arch

# Without vet, which is among the linters.
.PHONY: unit
unit: ## Unit and script tests with the race detector
	@hack/prerequisites.sh gcc libc6-dev
	@$(STEP) "unit and script tests with -race (first time, about 10 min)" \
	  $(COMPILING) CGO_ENABLED=1 go test -race -vet=off -timeout 20m ./...
	@$(STEP) "unit tests of test/cluster" go -C test/cluster test -timeout 10m ./...

##@ Cluster

.PHONY: cluster-up
cluster-up: ## Bring up the real single-node cluster (warm: 90 s; cold: 20 to 40 min)
	@$(STEP) "cluster up (with a cold cache 20 to 40 min of builds)" go -C test/cluster run . up

.PHONY: cluster-down
cluster-down: ## Take the cluster down; leaves no process, mount or namespace behind
	@$(STEP) "cluster down" go -C test/cluster run . down

.PHONY: e2e
e2e: build ## End to end on the real cluster, or on the one that KUBE_LAB_E2E_KUBECONFIG names
	@hack/e2e.sh run

.PHONY: bench
bench: build ## Compare the plugin's speed with kubectl's, side by side
	@hack/e2e.sh bench

# First, so that a missing cluster is known before an hour of other tests.
.PHONY: e2e-check
e2e-check:
	@code=0; hack/e2e.sh check || code=$$?; [ $$code -eq 0 ] || [ $$code -eq 3 ]

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
