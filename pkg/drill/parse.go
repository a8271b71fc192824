package drill

import (
	"fmt"

	"kube-lab.dev/kube-lab/pkg/strictjson"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// The learner's files. Acts 3 and 5 have none.
const (
	scopeFile        = "scope.json"
	policyJSON       = "policy.json"
	planFile         = "freeze-plan.json"
	policyIgnoreJSON = "policy-ignore.json"
	recoveryFile     = "recovery.json"
	reportFile       = "report.json"
)

// InputOf returns the name of the file that an act reads, or "" when it reads none.
func InputOf(act int) string {
	switch act {
	case 1:
		return scopeFile
	case 2:
		return policyJSON
	case 4:
		return planFile
	case 6:
		return policyIgnoreJSON
	case 7:
		return recoveryFile
	case 8:
		return reportFile
	default:
		return ""
	}
}

const (
	askInspect = "Copy it from the output of `kubectl kca inspect`."
	askText    = "Write the word exactly as expected."
)

func askDigest(act int) string {
	return fmt.Sprintf("Run `kubectl kca digest %s` in the lab folder and copy the result.", EvidenceFile(act))
}

// ParseScope reads scope.json and compares it with the cluster. The error is a *strictjson.Error
// for a malformed file and a *Wrong for a well-formed one with other values; so it is for the other
// Parse functions.
func ParseScope(l Lab, data []byte, seen Inspection) (Scope, error) {
	s, err := strictjson.Decode[Scope](scopeFile, data)
	if err != nil {
		return Scope{}, err
	}
	return s, wrong(scopeFile, scopeChecks(l, s, seen))
}

func scopeChecks(l Lab, s Scope, seen Inspection) []verdict.Check {
	var f findings
	f.sameWith("/target", l.Target, s.Target, askText)
	f.sameWith("/control", l.Control, s.Control, askText)
	f.sameWith("/node_uid", seen.VM.NodeUID, s.NodeUID, askInspect)
	f.add(namespaceChecks("/namespaces", l, seen.Namespaces, s.Namespaces)...)
	return f.checks
}

// namespaceChecks compares the UIDs of the drill's two namespaces, of which there are exactly two.
func namespaceChecks(path string, l Lab, want, seen map[string]string) []verdict.Check {
	f := findings{hint: "Name the target and the control namespace with their UIDs, and no other; `kubectl kca inspect` prints them."}
	f.same(path+"/"+l.Target, want[l.Target], seen[l.Target])
	f.same(path+"/"+l.Control, want[l.Control], seen[l.Control])
	f.that(len(seen) == 2, path, "exactly "+l.Target+" and "+l.Control, fmt.Sprintf("%d namespaces", len(seen)))
	f.unless(seen[l.Target] == seen[l.Control], path, "two different UIDs", "the same UID twice")
	return f.checks
}

// ParsePlan reads freeze-plan.json and compares it with the node and Deployment of act 1 and the
// canonical digest of evidence/03.json.
func ParsePlan(l Lab, data []byte, nodeUID, deploymentUID, evidence03Digest string) (FreezePlan, error) {
	p, err := strictjson.Decode[FreezePlan](planFile, data)
	if err != nil {
		return FreezePlan{}, err
	}
	return p, wrong(planFile, planChecks(l, p, nodeUID, deploymentUID, evidence03Digest))
}

func planChecks(l Lab, p FreezePlan, nodeUID, deploymentUID, digest string) []verdict.Check {
	var f findings
	f.sameWith("/action", l.Action, p.Action, askText)
	f.sameWith("/node_uid", nodeUID, p.NodeUID, askInspect)
	f.sameWith("/deployment_uid", deploymentUID, p.DeploymentUID, askInspect)
	f.hint = "The freeze lasts 20 s, not more and not less."
	f.equal("/resume_after_sec", ResumeAfterSeconds, int64(p.ResumeAfterSec))
	f.sameWith("/signal_identity", "pidfd", p.SignalIdentity, "A number alone can be another process by the time of the signal: name a pidfd.")
	f.hint = "The drill takes away the answer and leaves the registration: set it to true."
	f.that(p.PreserveWebhook, "/preserve_webhook", "true", fmt.Sprint(p.PreserveWebhook))
	f.sameWith("/evidence_sha256", digest, p.EvidenceSHA256, askDigest(3))
	return f.checks
}

// ParseRecovery reads recovery.json and compares it with the policy's UID in 02.json and the
// canonical digest of evidence/06.json.
func ParseRecovery(_ Lab, data []byte, policyUID, digest06 string) (Recovery, error) {
	r, err := strictjson.Decode[Recovery](recoveryFile, data)
	if err != nil {
		return Recovery{}, err
	}
	return r, wrong(recoveryFile, recoveryChecks(r, policyUID, digest06))
}

func recoveryChecks(r Recovery, policyUID, digest06 string) []verdict.Check {
	f := findings{hint: "Read evidence/06.json again and say what it shows, in the expected word."}
	f.same("/mode", ignorePolicy, r.Mode)
	f.same("/healthy_bad", string(ExplicitDeny), r.HealthyBad)
	f.same("/existing", "same-uid-running", r.Existing)
	f.sameWith("/policy_uid", policyUID, r.PolicyUID, "Copy facts.policy.metadata.uid of evidence/02.json.")
	f.sameWith("/ignore_evidence_sha256", digest06, r.IgnoreEvidenceSHA256, askDigest(6))
	return f.checks
}

// ParseReport reads report.json and compares it with the canonical digests of 05, 06 and 07.json.
func ParseReport(_ Lab, data []byte, digest05, digest06, digest07 string) (Report, error) {
	r, err := strictjson.Decode[Report](reportFile, data)
	if err != nil {
		return Report{}, err
	}
	return r, wrong(reportFile, reportChecks(r, digest05, digest06, digest07))
}

func reportChecks(r Report, digest05, digest06, digest07 string) []verdict.Check {
	f := findings{hint: "Read the evidence of acts 5 to 7 again and say what it shows, in the expected words."}
	f.same("/fail", "matching-requests-timeout", r.Fail)
	f.same("/ignore", "unvalidated-request-stored", r.Ignore)
	f.same("/healthy_ignore", string(ExplicitDeny), r.HealthyIgnore)
	f.same("/control", "outside-selector", r.Control)
	f.same("/existing", "same-uid-running", r.Existing)
	f.sameWith("/fail_evidence_sha256", digest05, r.FailEvidenceSHA256, askDigest(5))
	f.sameWith("/ignore_evidence_sha256", digest06, r.IgnoreEvidenceSHA256, askDigest(6))
	f.sameWith("/recovery_evidence_sha256", digest07, r.RecoveryEvidenceSHA256, askDigest(7))
	return f.checks
}
