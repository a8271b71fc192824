#!/usr/bin/env bash
# Makes sure the Debian packages of a stage are there: asks dpkg, installs what is missing when we are root.
# Usage: hack/prerequisites.sh PACKAGE...
# Elsewhere (no root, no apt) it only says what a person may have to install: the stage itself fails with its own words.
set -euo pipefail
command -v dpkg-query >/dev/null || exit 0
missing=()
for package in "$@"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "prerequisites: not installed and we are not root, so please install: ${missing[*]}" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
here=$(cd "$(dirname "$0")" && pwd)
# Without an up-to-date list apt may ask for versions that the mirror no longer holds.
"$here/step.sh" "refreshing apt's package lists" apt-get update -qq
"$here/step.sh" "installing Debian packages: ${missing[*]}" \
  apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}"
