package drill

// Scope is scope.json.
type Scope struct {
	Target     string            `json:"target"`
	Control    string            `json:"control"`
	NodeUID    string            `json:"node_uid"`
	Namespaces map[string]string `json:"namespaces"`
}

// FreezePlan is freeze-plan.json.
type FreezePlan struct {
	Action          string `json:"action"`
	NodeUID         string `json:"node_uid"`
	DeploymentUID   string `json:"deployment_uid"`
	ResumeAfterSec  int    `json:"resume_after_sec"`
	SignalIdentity  string `json:"signal_identity"`
	PreserveWebhook bool   `json:"preserve_webhook"`
	EvidenceSHA256  string `json:"evidence_sha256"`
}

// Recovery is recovery.json.
type Recovery struct {
	Mode                 string `json:"mode"`
	HealthyBad           string `json:"healthy_bad"`
	Existing             string `json:"existing"`
	PolicyUID            string `json:"policy_uid"`
	IgnoreEvidenceSHA256 string `json:"ignore_evidence_sha256"`
}

// Report is report.json.
type Report struct {
	Fail                   string `json:"fail"`
	Ignore                 string `json:"ignore"`
	HealthyIgnore          string `json:"healthy_ignore"`
	Control                string `json:"control"`
	Existing               string `json:"existing"`
	FailEvidenceSHA256     string `json:"fail_evidence_sha256"`
	IgnoreEvidenceSHA256   string `json:"ignore_evidence_sha256"`
	RecoveryEvidenceSHA256 string `json:"recovery_evidence_sha256"`
}
