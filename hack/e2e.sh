#!/usr/bin/env bash
# Finds a cluster for the end-to-end tests, brings it up when it is ours, and runs them on it.
# Usage: hack/e2e.sh check     says in one line what is missing; exit 0 can run, 1 cannot (fails), 3 cannot (left out)
#        hack/e2e.sh run       the cluster's own life-cycle tests, then the end-to-end tests; go test speaks last
#        hack/e2e.sh bench     the speed comparison on our own cluster's kubectl
# KUBE_LAB_E2E_KUBECONFIG names a disposable cluster to use instead of our own one. Then KUBE_LAB_E2E_AGENT_IMAGE says
# which node agent image it can pull, and KUBE_LAB_E2E_KUBECTL which kubectl to use (default: the one on PATH).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

# Somebody else's cluster? `eval "$(go -C test/cluster run . env)"` sets the variable to our own.
foreign() {
  [ -n "${KUBE_LAB_E2E_KUBECONFIG:-}" ] && [ "$KUBE_LAB_E2E_KUBECONFIG" != "$(go -C test/cluster run . kubeconfig)" ]
}

check() {
  ! foreign || return 0
  local missing=
  if [ "$(uname -s)" != Linux ]; then
    missing="Linux (this is $(uname -s))"
  elif [ "$(id -u)" -ne 0 ]; then
    missing="root (we are $(id -un))"
  fi
  [ -n "$missing" ] || return 0
  echo "e2e: no cluster to test on: our own needs $missing; set KUBE_LAB_E2E_KUBECONFIG to the kubeconfig of a disposable cluster instead" >&2
  [ "${CI:-}" != true ] || return 1 # CI must never pass without them
  return 3
}

# What every test finds in its environment.
export KUBE_LAB_E2E_BIN=$root/build/bin KUBE_LAB_E2E_DIST=$root/dist

krew_tools() {
  KUBE_LAB_E2E_KREW=$(hack/tools/install.sh krew)
  KUBE_LAB_E2E_VALIDATE_KREW=$(hack/tools/install.sh validate-krew-manifest)
  export KUBE_LAB_E2E_KREW KUBE_LAB_E2E_VALIDATE_KREW
}

own_cluster() { # [--only kca]
  hack/step.sh "bringing the cluster up${1+ ($*)}" go -C test/cluster run . up "$@"
  # In a command substitution of its own, so that a failure ends this script.
  local settings
  settings=$(go -C test/cluster run . env)
  eval "$settings" # export KUBECONFIG=… PATH=… with the cluster's kubectl first
  export KUBE_LAB_E2E_CLUSTER=1 KUBE_LAB_E2E_KUBECONFIG=$KUBECONFIG
}

find_kubectl() {
  [ -z "${KUBE_LAB_E2E_KUBECTL:-}" ] || return 0
  KUBE_LAB_E2E_KUBECTL=$(command -v kubectl) || { echo "e2e: no kubectl on PATH; set KUBE_LAB_E2E_KUBECTL to one" >&2; return 1; }
  export KUBE_LAB_E2E_KUBECTL
}

# One package after the other, because they share the cluster; -v so that go test speaks while it runs, and last.
tests() { # TITLE PACKAGE...
  hack/step.sh --last "$1" go test -tags e2e -count=1 -p 1 -timeout 60m -v "${@:2}"
}

# What needs nothing but a processor waits until the tests on the cluster run, which mostly wait for clocks. It gets what
# they leave, and it is not part of what a Ctrl-C reaches by itself.
log=build/behind.log
behind=
begin_behind() {
  mkdir -p "${log%/*}"
  echo "==> behind the tests below, at the lowest priority: the rest of the cluster's programs, the release archives (log: $log)"
  setsid bash -c '
    # The scheduler weighs sessions against each other first, then the processes in them.
    echo 19 2>/dev/null >/proc/self/autogroup || true
    renice -n 19 $$ >/dev/null
    for work in "go -C test/cluster run . build" "make dist" "hack/tools/install.sh krew" "hack/tools/install.sh validate-krew-manifest"; do
      $work || { echo "==> FAILED behind the tests: $work (its output follows at the end)" >&9; exit 1; }
    done' 9>&2 >"$log" 2>&1 &
  behind=$!
  trap 'kill -- "-$behind" 2>/dev/null || true' EXIT
}
# Stands in for a wait: one line a while, and everything that was said in case of failure.
end_behind() {
  hack/step.sh "waiting for what was built behind the tests" tail --pid="$behind" -f /dev/null
  local code=0
  wait "$behind" || code=$?
  trap - EXIT
  grep -E '==> |: done in ' "$log" | sed 's/^/    /' || true
  [ $code -eq 0 ] || { cat "$log" >&2; return $code; }
}

run() {
  local code=0
  check || code=$?
  [ $code -ne 1 ] || return 1
  if [ $code -eq 3 ]; then
    make dist
    krew_tools
    find_kubectl || return 0
    tests "krew tests, which need no cluster" ./test/krew/...
    return
  fi
  if foreign; then
    make dist
    krew_tools
    find_kubectl
    tests "end-to-end tests on the cluster of KUBE_LAB_E2E_KUBECONFIG (about 21 min)" ./test/krew/... ./test/e2e/...
    return
  fi
  # Built apart, because here a cold build shows its progress.
  hack/step.sh "building the cluster without Argo CD (with a cold cache 15 to 25 min)" go -C test/cluster run . build --only kca
  # Not kept: a lab of an earlier demo may live in it, and a cluster that another lab uses is refused.
  hack/step.sh "taking an earlier cluster down" go -C test/cluster run . down
  begin_behind
  hack/step.sh "testing the cluster's own life: up, down, crashes (about 3 min)" \
    go -C test/cluster test -tags cluster -count=1 -p 1 -timeout 60m -v ./...
  own_cluster --only kca
  find_kubectl
  tests "end-to-end tests on the real cluster (about 21 min)" ./test/e2e/...
  end_behind
  own_cluster
  krew_tools
  tests "krew tests" ./test/krew/...
}

bench() {
  foreign || own_cluster
  find_kubectl
  hack/step.sh --last "comparing speeds side by side" go test -run '^$' -bench . -count=1 ./test/bench/...
}

case ${1:-} in
  check | run | bench) "$1" ;;
  *) echo "usage: hack/e2e.sh check|run|bench" >&2; exit 2 ;;
esac
