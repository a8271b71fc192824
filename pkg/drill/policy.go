package drill

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kube-lab.dev/kube-lab/pkg/strictjson"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// The two failure policies of the drill, as Kubernetes and Kyverno spell them.
const (
	failPolicy   = "Fail"
	ignorePolicy = "Ignore"
)

// Policy is a policy file that says exactly what the drill asks.
type Policy struct {
	// Raw is the file's content, to be sent as it is.
	Raw jsontext.Value
	// FailurePolicy is Fail or Ignore.
	FailurePolicy string
}

// The fields of policy.json and no others: a field more, such as autogen (K-17), is an unknown key.
type (
	policyContent struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   policyMetadata `json:"metadata"`
		Spec       policySpec     `json:"spec"`
	}
	policyMetadata struct {
		Name string `json:"name"`
	}
	policySpec struct {
		ValidationActions    []string           `json:"validationActions"`
		FailurePolicy        string             `json:"failurePolicy"`
		WebhookConfiguration policyWebhook      `json:"webhookConfiguration"`
		Evaluation           policyEvaluation   `json:"evaluation"`
		MatchConstraints     policyMatch        `json:"matchConstraints"`
		Validations          []policyValidation `json:"validations"`
	}
	policyWebhook struct {
		TimeoutSeconds int `json:"timeoutSeconds"`
	}
	policyEvaluation struct {
		Background policySwitch `json:"background"`
	}
	policySwitch struct {
		Enabled bool `json:"enabled"`
	}
	policyMatch struct {
		NamespaceSelector policySelector `json:"namespaceSelector"`
		ResourceRules     []policyRule   `json:"resourceRules"`
	}
	policySelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
	policyRule struct {
		APIGroups   []string `json:"apiGroups"`
		APIVersions []string `json:"apiVersions"`
		Operations  []string `json:"operations"`
		Resources   []string `json:"resources"`
	}
	policyValidation struct {
		Expression string `json:"expression"`
		Message    string `json:"message"`
	}
)

// nameLabel is the label that every namespace carries with its own name.
const nameLabel = "kubernetes.io/metadata.name"

// policyFor is the policy of spec section 4.
func policyFor(l Lab, failurePolicy string) policyContent {
	return policyContent{
		APIVersion: "policies.kyverno.io/v1",
		Kind:       "ValidatingPolicy",
		Metadata:   policyMetadata{Name: l.Policy},
		Spec: policySpec{
			ValidationActions:    []string{"Deny"},
			FailurePolicy:        failurePolicy,
			WebhookConfiguration: policyWebhook{TimeoutSeconds: HookTimeoutSeconds},
			MatchConstraints: policyMatch{
				NamespaceSelector: policySelector{MatchLabels: map[string]string{nameLabel: l.Target}},
				ResourceRules: []policyRule{{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Operations: []string{"CREATE"}, Resources: []string{"pods"},
				}},
			},
			Validations: []policyValidation{{
				Expression: "'environment' in object.metadata.?labels.orValue({})",
				Message:    l.DenyMessage,
			}},
		},
	}
}

// ParsePolicy reads policy.json: exactly the fields and values of spec section 4.
func ParsePolicy(l Lab, data []byte) (Policy, error) {
	return parsePolicy(l, policyJSON, data, failPolicy)
}

// ParsePolicyIgnore reads policy-ignore.json, which is policy.json with another failurePolicy.
// policy holds the bytes of policy.json.
func ParsePolicyIgnore(l Lab, data, policy []byte) (Policy, error) {
	parsed, err := parsePolicy(l, policyIgnoreJSON, data, ignorePolicy)
	if err != nil {
		return parsed, err
	}
	original, err := strictjson.Decode[policyContent](policyJSON, policy)
	if err != nil {
		return parsed, err
	}
	original.Spec.FailurePolicy = ignorePolicy
	return parsed, comparePolicy(policyIgnoreJSON, original, data)
}

func parsePolicy(l Lab, file string, data []byte, failurePolicy string) (Policy, error) {
	content, err := strictjson.Decode[policyContent](file, data)
	if err != nil {
		return Policy{}, err
	}
	parsed := Policy{Raw: jsontext.Value(data).Clone(), FailurePolicy: content.Spec.FailurePolicy}
	return parsed, comparePolicy(file, policyFor(l, failurePolicy), data)
}

// comparePolicy returns a *Wrong that names every field in which a file differs.
func comparePolicy(file string, want policyContent, data []byte) error {
	differs, err := differences(want, data, exactly)
	if err != nil {
		return fmt.Errorf("comparing %s: %w", file, err)
	}
	var f findings
	for _, d := range differs {
		f.hint = "Compare the file with examples/kca/policy.json of this project."
		if file == policyIgnoreJSON {
			f.hint = "Copy policy.json and change spec.failurePolicy to Ignore, nothing else."
		}
		f.that(false, d.path, d.want, d.seen)
	}
	if len(f.checks) == 0 {
		return nil
	}
	return &Wrong{File: file, Problems: f.checks}
}

// PolicyUID returns the UID of a live policy object.
func PolicyUID(live jsontext.Value) (string, error) {
	var object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(live, &object); err != nil {
		return "", fmt.Errorf("reading the policy's UID: %w", err)
	}
	if object.Metadata.UID == "" {
		return "", errors.New("reading the policy's UID: expected metadata.uid, saw none")
	}
	return object.Metadata.UID, nil
}

// CheckPolicy says whether the policy in the cluster is still the one that act 2 created, as the file
// asked for it, under this failurePolicy.
func CheckPolicy(l Lab, then, now jsontext.Value, failurePolicy string) []verdict.Check {
	f := findings{hint: "The policy was changed or replaced since act 2: run `kubectl kca reset` and start over in a new lab."}
	f.samePolicy(then, now)
	return append(f.checks, livePolicyChecks(l, now, failurePolicy)...)
}

// livePolicyChecks compares the policy in the cluster with what the file asked for. The API server
// and Kyverno add fields, which is fine unless one of them narrows what the policy is for.
func livePolicyChecks(l Lab, live jsontext.Value, failurePolicy string) []verdict.Check {
	f := findings{hint: "The policy in the cluster is not the one of the file: delete it, reset, and start a new lab."}
	uid, err := PolicyUID(live)
	f.that(err == nil, "policy UID", "a UID", uid)
	differs, err := differences(policyFor(l, failurePolicy), live, atLeast)
	if err != nil {
		f.that(false, "policy", "the policy object", err.Error())
		return f.checks
	}
	var faults []string
	for _, d := range differs {
		faults = append(faults, fmt.Sprintf("%s is %s, not %s", d.path, d.seen, d.want))
	}
	f.faults("policy", "every field as the file asks", "as asked", faults)
	f.faults("policy scope", "no field that narrows it", "none", narrowed(live))
	return f.checks
}
