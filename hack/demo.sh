#!/usr/bin/env bash
# The whole webhook drill on the real cluster of test/cluster, through a real kubectl, with the commands a learner types.
# Usage: hack/demo.sh     (make demo builds the plugin and brings the cluster up first)
# KUBE_LAB_HOME is where the lab lives; an earlier demo there is reset, and its evidence kept in the archive.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export KUBE_LAB_HOME=${KUBE_LAB_HOME:-$root/build/demo/kube-lab}
lab=$KUBE_LAB_HOME/kca-webhook

# The cluster says where its kubeconfig and its kubectl are; the plugin comes first on PATH, as krew would put it.
eval "$(go -C test/cluster run . env)"
export PATH=$root/build/bin:$PATH

if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
chapter() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
# Shows a command as it is typed, then runs it.
type_() { printf '%s$ %s%s\n' "$bold" "$1" "$plain"; bash -euo pipefail -c "$1"; }

started=$SECONDS
context=$(kubectl config current-context)
mkdir -p "$KUBE_LAB_HOME"

chapter "The node agent's image"
rm -f "$root/build/demo/agent.tar" # of an earlier demo: agent-image overwrites nothing
type_ "kubectl kca agent-image -o $root/build/demo/agent.tar"
type_ "go -C test/cluster run . load $root/build/demo/agent.tar"

if [ -e "$lab/lab.json" ]; then
  chapter "An earlier demo: put away, with its evidence"
  # The cluster of that demo may be gone; then there is only the folder to put away.
  type_ "kubectl kca reset || kubectl kca reset --archive-only"
fi

chapter "A lab of one's own, bound to one cluster"
type_ "kubectl kca init --confirm $context"
type_ "cp examples/kca/policy.json $lab/policy.json"
type_ "kubectl kca inspect > $KUBE_LAB_HOME/inspect.json"
type_ "jq . $KUBE_LAB_HOME/inspect.json"

chapter "Act 1: where am I?"
type_ "jq -n --slurpfile i $KUBE_LAB_HOME/inspect.json '{target:\"kca-webhook-target\", control:\"kca-webhook-control\", node_uid:\$i[0].vm.node_uid, namespaces:\$i[0].namespaces}' > $lab/scope.json"
type_ "kubectl kca act 1"

chapter "Act 2: the policy, and the registration that makes the API server call"
type_ "kubectl kca act 2"

chapter "Act 3: a healthy webhook says yes and no"
type_ "kubectl kca act 3"
type_ "jq '.facts | {good: (.good | {class, stored}), bad: (.bad | {class, message, stored}), existing: (.existing | {name, phase})}' $lab/evidence/03.json"

chapter "Act 4: which process, exactly? (no signal)"
type_ "jq --arg d \"\$(kubectl kca digest $lab/evidence/03.json)\" --slurpfile i $KUBE_LAB_HOME/inspect.json '.node_uid=\$i[0].vm.node_uid | .deployment_uid=\$i[0].deployment.uid | .evidence_sha256=\$d' examples/kca/freeze-plan.json > $lab/freeze-plan.json"
type_ "kubectl kca act 4"

chapter "Act 5: it stops answering, under failurePolicy Fail"
type_ "kubectl kca act 5"
type_ "jq '.facts | {frozen_ms: .freeze.frozen_ms, resumed_by: .freeze.resumed_by, good: (.during.good | {class, stored}), bad: (.during.bad | {class, stored}), control: (.during.control | {class, stored}), after: .after.bad.class}' $lab/evidence/05.json"

chapter "Act 6: the same, under failurePolicy Ignore"
type_ "jq '.spec.failurePolicy=\"Ignore\"' $lab/policy.json > $lab/policy-ignore.json"
type_ "kubectl kca act 6"
type_ "jq '.facts | {before: .before.bad.class, frozen_ms: .freeze.frozen_ms, resumed_by: .freeze.resumed_by, good: (.during.good | {class, stored}), bad: (.during.bad | {class, stored}), control: (.during.control | {class, stored}), after: .after.bad.class}' $lab/evidence/06.json"

chapter "Act 7: healthy again, and still under Ignore"
type_ "jq --arg u \"\$(jq -r .facts.policy.metadata.uid $lab/evidence/02.json)\" --arg d \"\$(kubectl kca digest $lab/evidence/06.json)\" '.policy_uid=\$u | .ignore_evidence_sha256=\$d' examples/kca/recovery.json > $lab/recovery.json"
type_ "kubectl kca act 7"

chapter "Act 8: what was learnt, tied to its evidence"
type_ "jq --arg f \"\$(kubectl kca digest $lab/evidence/05.json)\" --arg i \"\$(kubectl kca digest $lab/evidence/06.json)\" --arg r \"\$(kubectl kca digest $lab/evidence/07.json)\" '.fail_evidence_sha256=\$f | .ignore_evidence_sha256=\$i | .recovery_evidence_sha256=\$r' examples/kca/report.json > $lab/report.json"
type_ "kubectl kca act 8"

chapter "The grade"
type_ "kubectl kca grade"

chapter "Done in $((SECONDS - started)) s; the cluster is still up"
cat <<EOF
Try next:
  eval "\$(go -C test/cluster run . env)"; export PATH=$root/build/bin:\$PATH KUBE_LAB_HOME=$KUBE_LAB_HOME
  kubectl kca status
  kubectl kca grade 5
  kubectl get validatingwebhookconfiguration kyverno-resource-validating-webhook-cfg -o yaml
  kubectl kca reset          # put this lab away; its evidence is kept in $KUBE_LAB_HOME/archive
  make cluster-down
EOF
