#!/usr/bin/env bash
# Prints the path of a pinned tool, building it on first use.
# Usage: hack/tools/install.sh NAME        (names: hack/tools/versions)
# Tools live below the cache folder, one folder per version and Go release, so that a new pin never meets an old binary.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
name=${1:?which tool? the names are in hack/tools/versions}

read -r _ package version minutes < <(awk -v n="$name" '$1 == n' "$here/versions") ||
  { echo "install.sh: no tool called $name in hack/tools/versions" >&2; exit 2; }

cache=${KUBE_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kube-lab}
folder=$cache/tools/$name/$version-$(go env GOVERSION)
if [ ! -x "$folder/$name" ]; then
  mkdir -p "$folder"
  fresh=$(mktemp -d "$folder/.new.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  # GOFLAGS of the caller (tags, -race) are for our code, not for the tool.
  GOFLAGS="-buildvcs=false -gcflags=all=-dwarf=false -ldflags=-w" GOGC=400 CGO_ENABLED=0 GOBIN=$fresh "$here/../step.sh" \
    "installing $name $version (first time, about $minutes min)" go install "$package@$version" >&2
  mv -f "$fresh/$name" "$folder/$name"
fi
printf '%s\n' "$folder/$name"
