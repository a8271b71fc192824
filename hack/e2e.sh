#!/usr/bin/env bash
# Finds a cluster for the end-to-end tests, brings it up when it is ours, and runs them on it.
# Usage: hack/e2e.sh check     says in one line what is missing; exit 0 can run, 1 cannot (fails), 3 cannot (left out)
#        hack/e2e.sh run       the cluster's own life-cycle tests, then the end-to-end tests; go test speaks last
# KUBE_LAB_E2E_KUBECONFIG names a disposable cluster to use instead of our own one.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

check() {
  [ -z "${KUBE_LAB_E2E_KUBECONFIG:-}" ] || return 0
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

run() {
  local code=0
  check || code=$?
  [ $code -eq 0 ] || { [ $code -eq 3 ] && return 0; return $code; }

  export KUBE_LAB_E2E_BIN=$root/build/bin KUBE_LAB_E2E_DIST=$root/dist
  KUBE_LAB_E2E_KREW=$(hack/tools/install.sh krew)
  KUBE_LAB_E2E_VALIDATE_KREW=$(hack/tools/install.sh validate-krew-manifest)
  export KUBE_LAB_E2E_KREW KUBE_LAB_E2E_VALIDATE_KREW

  if [ -z "${KUBE_LAB_E2E_KUBECONFIG:-}" ]; then
    hack/step.sh "testing the cluster's own life: up, down, crashes (about 8 min, and 17 min of builds with a cold cache)" \
      go -C test/cluster test -tags cluster -count=1 -timeout 60m -v ./...
    hack/step.sh "bringing the cluster up" go -C test/cluster run . up
    # The cluster says where its kubeconfig and its kubectl are.
    local line
    while IFS= read -r line; do
      case $line in KUBE_LAB_E2E_*=*) export "${line?}" ;; esac
    done < <(go -C test/cluster run . env)
  fi

  # One package after the other, because they share the cluster, and -v so that go test speaks while it runs.
  hack/step.sh --last "end-to-end tests on the real cluster (about 25 min)" \
    go test -tags e2e -count=1 -p 1 -timeout 40m -v ./test/e2e/... ./test/krew/...
}

case ${1:-} in
  check) check ;;
  run) run ;;
  *) echo "usage: hack/e2e.sh check|run" >&2; exit 2 ;;
esac
