#!/usr/bin/env bash
# Writes every generated file of the repository below a folder.
# Usage: hack/generate.sh FOLDER     (`.` renews the files of the tree, `make verify` compares a temporary folder)
set -euo pipefail
out=$(cd "${1:?below which folder?}" && pwd)
cd "$(dirname "$0")/.."
export GOGC=400 # of the compiler, see Makefile
go run -buildvcs=false ./hack/release krew-template -o "$out/.krew.yaml"
rm -rf "$out/docs/reference"
mkdir -p "$out/docs/reference"
go run -buildvcs=false ./hack/docgen -o "$out/docs/reference"
