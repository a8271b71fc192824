// Package drill holds what the webhook drill observes (facts), what it asks of the learner's files
// (inputs), and the pure rules that classify and grade both. It does no I/O and reads no clock.
package drill

import "github.com/go-json-experiment/json/jsontext"

// Schema identifiers of the evidence envelope; a reader refuses any other.
const (
	EvidenceSchema = "kube-lab.dev/kca/evidence/v1"
)

// Record is the envelope of evidence/NN.json.
type Record struct {
	Schema         string            `json:"schema"`
	Lab            string            `json:"lab"`
	Act            int               `json:"act"`
	Tool           Tool              `json:"tool"`
	StartedAt      string            `json:"started_at"`  // RFC 3339 UTC with nanoseconds
	FinishedAt     string            `json:"finished_at"` // RFC 3339 UTC with nanoseconds
	Cluster        Cluster           `json:"cluster"`
	Inputs         map[string]string `json:"inputs"`          // file name → canonical digest
	PreviousSHA256 string            `json:"previous_sha256"` // canonical digest of the evidence before; "" in act 1
	RawSHA256      string            `json:"raw_sha256"`      // SHA-256 of the bytes of NN.raw.jsonl; "" when the act changed nothing and wrote none
	Facts          jsontext.Value    `json:"facts"`
}

// Tool is the program that wrote a record.
type Tool struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

// Cluster is where a record was made.
type Cluster struct {
	ServerVersion  string            `json:"server_version"`
	KyvernoVersion string            `json:"kyverno_version"`
	KubeSystemUID  string            `json:"kube_system_uid"`
	NodeUID        string            `json:"node_uid"`
	Namespaces     map[string]string `json:"namespaces"` // name → UID, target and control
}

// VM is the node that runs the admission controller's Pod.
type VM struct {
	NodeName string `json:"node_name"`
	NodeUID  string `json:"node_uid"`
}

// ObjectRef names one namespaced object exactly.
type ObjectRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Inspection is what `inspect` prints and what the acts compare inputs with.
type Inspection struct {
	VM         VM                `json:"vm"`
	Namespaces map[string]string `json:"namespaces"`
	Deployment ObjectRef         `json:"deployment"`
	Versions   map[string]string `json:"versions"` // kubernetes, kyverno, container_runtime, kubelet, kernel
}

// Stored says what a fresh GET found: State is yes, no or unknown; UID only with yes.
type Stored struct {
	State string `json:"state"`
	UID   string `json:"uid,omitempty"`
}

// The three answers of a fresh GET.
const (
	StoredYes     = "yes"
	StoredNo      = "no"
	StoredUnknown = "unknown"
)

// Sample is one real request and its answer. Times are microseconds since the act began, on the
// CLI's monotonic clock.
type Sample struct {
	Kind       string            `json:"kind"` // good, bad, control, canary
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels"`
	DryRun     bool              `json:"dry_run"`
	SentUS     int64             `json:"sent_us"`
	ReceivedUS int64             `json:"received_us"`
	LatencyUS  int64             `json:"latency_us"`
	HTTPCode   *int              `json:"http_code"` // null when the server gave no Status and no answer
	Reason     string            `json:"reason"`
	Message    string            `json:"message"`
	Class      Class             `json:"class"`
	Hook       string            `json:"hook"` // the webhook named in the message, "" when none
	UID        string            `json:"uid"`  // of the object in the answer, "" when none
	Stored     Stored            `json:"stored"`
	Warnings   []string          `json:"warnings"`
}

// Existing is the Pod that already ran, re-read.
type Existing struct {
	Namespace    string `json:"namespace"`
	Name         string `json:"name"`
	UID          string `json:"uid"`
	Phase        string `json:"phase"`
	ContainerID  string `json:"container_id"`
	RestartCount int    `json:"restart_count"`
	ReadUS       int64  `json:"read_us"`
}

// ServiceRef is a webhook's clientConfig.service.
type ServiceRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Path      string `json:"path"`
	Port      int    `json:"port"`
}

// HookRule is one rule of a webhook entry.
type HookRule struct {
	APIGroups   []string `json:"api_groups"`
	APIVersions []string `json:"api_versions"`
	Operations  []string `json:"operations"`
	Resources   []string `json:"resources"`
}

// Registration is one webhook entry as the API server holds it.
type Registration struct {
	Configuration     string         `json:"configuration"`
	ConfigurationUID  string         `json:"configuration_uid"`
	ResourceVersion   string         `json:"resource_version"`
	Webhook           string         `json:"webhook"`
	FailurePolicy     string         `json:"failure_policy"`
	TimeoutSeconds    int            `json:"timeout_seconds"`
	Rules             []HookRule     `json:"rules"`
	NamespaceSelector jsontext.Value `json:"namespace_selector"` // as registered; null when absent
	ObjectSelector    jsontext.Value `json:"object_selector"`
	MatchConditions   int            `json:"match_conditions"` // how many
	SelectsTarget     bool           `json:"selects_target"`
	SelectsControl    bool           `json:"selects_control"`
	SelectsHelper     bool           `json:"selects_helper"` // kube-lab-system
	CABundleSHA256    string         `json:"ca_bundle_sha256"`
	Service           ServiceRef     `json:"service"`
	ReadUS            int64          `json:"read_us"`
}

// Container is the admission controller's container at one moment.
type Container struct {
	Pod          string `json:"pod"`
	PodUID       string `json:"pod_uid"`
	Name         string `json:"name"`
	ID           string `json:"id"` // with the runtime prefix, as in the Pod status
	RestartCount int    `json:"restart_count"`
	LeaseHolder  string `json:"lease_holder"` // Kyverno's leader, "" when unreadable
	ReadUS       int64  `json:"read_us"`
}

// Process is one process, identified by more than a number.
type Process struct {
	ContainerID string `json:"container_id"` // without the runtime prefix
	PodUID      string `json:"pod_uid"`
	PID         int    `json:"pid"`
	StartTicks  string `json:"start_ticks"` // field 22 of /proc/PID/stat
	BootID      string `json:"boot_id"`
	Cgroup      string `json:"cgroup"`
}

// Backend is who answers behind a registration.
type Backend struct {
	ReadyEndpoints  int       `json:"ready_endpoints"`
	Pod             ObjectRef `json:"pod"`
	Node            VM        `json:"node"`
	NodeBootID      string    `json:"node_boot_id"`
	NodeArch        string    `json:"node_arch"`
	Deployment      ObjectRef `json:"deployment"`
	Replicas        int       `json:"replicas"` // spec.replicas, absent = 1
	StatusReplicas  int       `json:"status_replicas"`
	UpdatedReplicas int       `json:"updated_replicas"`
	Container       Container `json:"container"`
	Image           string    `json:"image"`
	Probes          Probes    `json:"probes"`
}

// Probe holds the numbers of one kubelet probe, defaults applied; nil means the probe is not set.
type Probe struct {
	PeriodSeconds    int `json:"period_seconds"`
	TimeoutSeconds   int `json:"timeout_seconds"`
	FailureThreshold int `json:"failure_threshold"`
}

// Probes are the live probes of the admission container.
type Probes struct {
	Liveness  *Probe `json:"liveness"`
	Readiness *Probe `json:"readiness"`
}

// Budget says whether a freeze of this length can restart the container or take it out of the
// endpoints, computed from the live probes.
type Budget struct {
	FreezeSeconds     int    `json:"freeze_seconds"`
	Probes            Probes `json:"probes"`
	LivenessFailures  int    `json:"liveness_failures"` // at most this many can fail in one freeze
	ReadinessFailures int    `json:"readiness_failures"`
	RestartPossible   bool   `json:"restart_possible"`
	LeavesEndpoints   bool   `json:"leaves_endpoints"`
	SpacingSeconds    int    `json:"spacing_seconds"` // two liveness periods
}

// Hook is another webhook that the same Pod serves.
type Hook struct {
	Configuration     string     `json:"configuration"`
	Kind              string     `json:"kind"` // validating or mutating
	Webhook           string     `json:"webhook"`
	FailurePolicy     string     `json:"failure_policy"`
	TimeoutSeconds    int        `json:"timeout_seconds"`
	Rules             []HookRule `json:"rules"`
	CoversTargetPods  bool       `json:"covers_target_pods"`
	CoversControlPods bool       `json:"covers_control_pods"`
	CoversHelperPods  bool       `json:"covers_helper_pods"`
}
