#!/usr/bin/env bash
# Runs one step of the build and says what it is doing, so that a long step is never silent.
# Usage: hack/step.sh [--last] "what, and about how long" COMMAND ARG...
# Prints the title, a line with the elapsed time every 30 s, and the outcome; the exit code is the command's.
# --last leaves the outcome line out: the command's own last lines stay the last ones.
set -uo pipefail
last=
if [ "$1" = --last ]; then last=yes; shift; fi
title=$1; shift

elapsed() { printf '%dm%02ds' $((SECONDS / 60)) $((SECONDS % 60)); }
printf '==> %s\n' "$title"
SECONDS=0

# A read that never gets anything is a sleep without a child process: nothing is left holding our output when it ends.
exec {never}<> <(:)
( while :; do read -r -t 30 -u "$never"; printf '    %s: %s so far\n' "$title" "$(elapsed)"; done ) &
ticker=$!
# `exec` of a terminal's Ctrl-C reaches the command by itself; only the ticker needs ending.
trap 'kill "$ticker" 2>/dev/null' EXIT

"$@"
code=$?
if [ "$code" -ne 0 ]; then
  printf '==> FAILED after %s (exit code %d): %s\n' "$(elapsed)" "$code" "$title"
elif [ -z "$last" ]; then
  printf '==> done in %s: %s\n' "$(elapsed)" "$title"
fi
exit "$code"
