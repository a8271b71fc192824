#!/usr/bin/env bash
# Fails when a generated file differs from what hack/generate.sh writes now. Compares folders, not commits, so it
# works with uncommitted changes.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
hack/generate.sh "$fresh"
code=0
for path in .krew.yaml docs/reference; do
  diff -ru "$path" "$fresh/$path" || code=1
done
[ $code -eq 0 ] || echo "verify: generated files are not current; run: make generate" >&2
exit $code
