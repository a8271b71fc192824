package drill

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/strictjson"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

var (
	evidence03 = strings.Repeat("3", 64)
	evidence05 = strings.Repeat("5", 64)
	evidence06 = strings.Repeat("6", 64)
	evidence07 = strings.Repeat("7", 64)
)

// parse reads a learner's file by its name, with what the acts before have found out.
func parse(name string, data []byte) error {
	var err error
	switch l := Freeze(); name {
	case scopeFile:
		_, err = ParseScope(l, data, refInspection())
	case policyJSON:
		_, err = ParsePolicy(l, data)
	case planFile:
		_, err = ParsePlan(l, data, nodeUID, deploymentUID, evidence03)
	case policyIgnoreJSON:
		_, err = ParsePolicyIgnore(l, data, refPolicy("Fail"))
	case recoveryFile:
		_, err = ParseRecovery(l, data, policyUID, evidence06)
	case reportFile:
		_, err = ParseReport(l, data, evidence05, evidence06, evidence07)
	default:
		err = errors.New("no such file")
	}
	return err
}

// example is a template of examples/kca with its placeholders filled in.
func example(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "examples", "kca", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(
		"REPLACE_NODE_UID", nodeUID, "REPLACE_TARGET_NAMESPACE_UID", targetUID, "REPLACE_CONTROL_NAMESPACE_UID", controlUID,
		"REPLACE_DEPLOYMENT_UID", deploymentUID, "REPLACE_POLICY_UID", policyUID, "REPLACE_EVIDENCE_03_SHA256", evidence03,
		"REPLACE_EVIDENCE_05_SHA256", evidence05, "REPLACE_EVIDENCE_06_SHA256", evidence06, "REPLACE_EVIDENCE_07_SHA256", evidence07,
	).Replace(string(data))
}

func inputNames() []string {
	var names []string
	for act := 1; act <= Acts; act++ {
		if name := InputOf(act); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func TestExamplesAreTheSixFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "kca", "*.json"))
	if err != nil || len(files) != 6 || len(inputNames()) != 6 {
		t.Fatalf("examples are %v (%v), inputs %v", files, err, inputNames())
	}
	for _, name := range inputNames() {
		filled := example(t, name)
		if strings.Contains(filled, "REPLACE") {
			t.Errorf("%s: a placeholder that this test does not know", name)
		}
		if err := parse(name, []byte(filled)); err != nil {
			t.Errorf("%s with its placeholders filled in: %v", name, err)
		}
		template, err := os.ReadFile(filepath.Join("..", "..", "examples", "kca", name))
		if err != nil {
			t.Fatal(err)
		}
		var wrong *Wrong
		if err := parse(name, template); strings.Contains(string(template), "REPLACE") && !errors.As(err, &wrong) {
			t.Errorf("%s as it is: got %v, want a *Wrong", name, err)
		}
	}
}

func TestParseMalformed(t *testing.T) {
	replace := func(name, from, to string) func(*testing.T) (string, string) {
		return func(t *testing.T) (string, string) {
			text := example(t, name)
			if !strings.Contains(text, from) {
				t.Fatalf("%s does not contain %s", name, from)
			}
			return name, strings.Replace(text, from, to, 1)
		}
	}
	for name, c := range map[string]struct {
		file func(*testing.T) (string, string)
		path string
	}{
		"K-17 autogen":          {replace(policyJSON, `"validationActions"`, `"autogen":{"podControllers":{"controllers":[]}},"validationActions"`), "/spec/autogen"},
		"a key twice":           {replace(policyJSON, `"kind":`, `"kind":"ValidatingPolicy","kind":`), "/kind"},
		"J-01 other spelling":   {replace(scopeFile, `"target":`, `"Target":`), "/Target"},
		"a key is missing":      {replace(planFile, `"preserve_webhook": true,`, ``), ""},
		"J-11 null":             {replace(planFile, `"preserve_webhook": true`, `"preserve_webhook": null`), "/preserve_webhook"},
		"20.0 is no integer":    {replace(planFile, "20", "20.0"), "/resume_after_sec"},
		"a string is no number": {replace(planFile, "20", `"20"`), "/resume_after_sec"},
		"J-03 more behind it":   {replace(reportFile, `{`, `{}{`), ""},
		"a list for a string":   {replace(recoveryFile, `"Ignore"`, `["Ignore"]`), "/mode"},
		"null namespaces":       {replace(scopeFile, `"kca-webhook-target": "`+targetUID+`"`, `"kca-webhook-target": null`), "/namespaces/kca-webhook-target"},
		"too deep for a label":  {replace(policyIgnoreJSON, `"Ignore"`, `{"mode":"Ignore"}`), "/spec/failurePolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			file, text := c.file(t)
			err := parse(file, []byte(text))
			var malformed *strictjson.Error
			if !errors.As(err, &malformed) {
				t.Fatalf("got %v, want a *strictjson.Error", err)
			}
			if malformed.File != file || malformed.Path != c.path {
				t.Errorf("got %s at %q, want %s at %q", malformed.File, malformed.Path, file, c.path)
			}
		})
	}
}

func TestParseWrong(t *testing.T) {
	edit := func(pairs ...string) *strings.Replacer { return strings.NewReplacer(pairs...) }
	for name, c := range map[string]struct {
		file  string
		edit  *strings.Replacer
		paths []string
	}{
		"scope of another node":        {scopeFile, edit(nodeUID, targetUID), []string{"/node_uid"}},
		"target and control exchanged": {scopeFile, edit(`"target": "kca-webhook-target"`, `"target": "kca-webhook-control"`, `"control": "kca-webhook-control"`, `"control": "kca-webhook-target"`), []string{"/target", "/control"}},
		"UIDs exchanged":               {scopeFile, edit(targetUID, controlUID, controlUID, targetUID), []string{"/namespaces/kca-webhook-target", "/namespaces/kca-webhook-control"}},
		"a namespace more":             {scopeFile, edit(`"namespaces": {`, `"namespaces": {"default": "x",`), []string{"/namespaces"}},
		"namespaces by number":         {scopeFile, edit(`"kca-webhook-target": "`, `"1": "`), []string{"/namespaces/kca-webhook-target"}},

		"policy of another name":  {policyJSON, edit("kca-webhook-label", "kca-webhook-labels"), []string{"/metadata/name"}},
		"policy that ignores":     {policyJSON, edit(`"Fail"`, `"Ignore"`), []string{"/spec/failurePolicy"}},
		"policy that audits":      {policyJSON, edit(`"Deny"`, `"Audit"`), []string{"/spec/validationActions/0"}},
		"K-11 another time limit": {policyJSON, edit(": 3", ": 10"), []string{"/spec/webhookConfiguration/timeoutSeconds"}},
		"for all namespaces":      {policyJSON, edit(`"kubernetes.io/metadata.name": "kca-webhook-target"`, ``), []string{"/spec/matchConstraints/namespaceSelector/matchLabels/kubernetes.io~1metadata.name"}},
		"for updates too":         {policyJSON, edit(`["CREATE"]`, `["CREATE","UPDATE"]`), []string{"/spec/matchConstraints/resourceRules/0/operations"}},
		"a rule that never fires": {policyJSON, edit("'environment' in object.metadata.?labels.orValue({})", "true"), []string{"/spec/validations/0/expression"}},
		"two faults": {policyJSON, edit(`"Fail"`, `"Ignore"`, "KCA_ENVIRONMENT_REQUIRED", "no"),
			[]string{"/spec/failurePolicy", "/spec/validations/0/message"}},

		"plan to kill":             {planFile, edit("freeze-one-controller-process", "kill"), []string{"/action"}},
		"plan for a minute":        {planFile, edit("20", "60"), []string{"/resume_after_sec"}},
		"plan by number":           {planFile, edit(`"pidfd"`, `"pid"`), []string{"/signal_identity"}},
		"plan without the webhook": {planFile, edit("true", "false"), []string{"/preserve_webhook"}},
		"plan on other evidence":   {planFile, edit(evidence03, evidence05), []string{"/evidence_sha256"}},
		"plan in upper case":       {planFile, edit(evidence03, strings.Repeat("A", 64)), []string{"/evidence_sha256"}},
		"plan without a node":      {planFile, edit(nodeUID, ""), []string{"/node_uid"}},

		"ignore file that fails": {policyIgnoreJSON, edit(`"Ignore"`, `"Fail"`), []string{"/spec/failurePolicy"}},
		"ignore file and more":   {policyIgnoreJSON, edit(": 3", ": 4"), []string{"/spec/webhookConfiguration/timeoutSeconds"}},

		"recovery under Fail":       {recoveryFile, edit(`"Ignore"`, `"Fail"`), []string{"/mode"}},
		"recovery of other policy":  {recoveryFile, edit(policyUID, nodeUID), []string{"/policy_uid"}},
		"recovery on act 5":         {recoveryFile, edit(evidence06, evidence05), []string{"/ignore_evidence_sha256"}},
		"recovery with a new Pod":   {recoveryFile, edit("same-uid-running", "recreated"), []string{"/existing"}},
		"recovery without a denial": {recoveryFile, edit("explicit-deny", "call-timeout"), []string{"/healthy_bad"}},

		"report that mixes both":    {reportFile, edit("matching-requests-timeout", "unvalidated-request-stored", "unvalidated-request-stored", "matching-requests-timeout"), []string{"/fail", "/ignore"}},
		"report with digests mixed": {reportFile, edit(evidence05, evidence07, evidence07, evidence05), []string{"/fail_evidence_sha256", "/recovery_evidence_sha256"}},
		"report on the control":     {reportFile, edit("outside-selector", "excluded"), []string{"/control"}},
		"report without an answer":  {reportFile, edit(`"explicit-deny"`, `""`), []string{"/healthy_ignore"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := parse(c.file, []byte(c.edit.Replace(example(t, c.file))))
			var wrong *Wrong
			if !errors.As(err, &wrong) {
				t.Fatalf("got %v, want a *Wrong", err)
			}
			var paths []string
			for _, p := range wrong.Problems {
				if paths = append(paths, p.Name); p.Hint == "" || p.Expected == "" || p.Seen == "" {
					t.Errorf("a problem without words: %+v", p)
				}
			}
			for _, want := range c.paths {
				if !strings.Contains(strings.Join(paths, " ")+" ", want+" ") {
					t.Errorf("wrong fields are %q, want %q among them", paths, want)
				}
			}
			if line := err.Error(); !strings.HasPrefix(line, c.file+": ") || strings.ContainsAny(line, "\n\r") {
				t.Errorf("message is not one line about the file: %q", line)
			}
		})
	}
}

// TestParseNeedsSomethingToCompareWith: two missing values do not agree.
func TestParseNeedsSomethingToCompareWith(t *testing.T) {
	var wrong *Wrong
	plan := strings.NewReplacer(nodeUID, "", deploymentUID, "", evidence03, "").Replace(example(t, planFile))
	if _, err := ParsePlan(Freeze(), []byte(plan), "", "", ""); !errors.As(err, &wrong) || len(wrong.Problems) != 3 {
		t.Errorf("empty UIDs and digest: %v", err)
	}
	recovery := strings.NewReplacer(policyUID, "", evidence06, "").Replace(example(t, recoveryFile))
	if _, err := ParseRecovery(Freeze(), []byte(recovery), "", ""); !errors.As(err, &wrong) || len(wrong.Problems) != 2 {
		t.Errorf("empty UID and digest: %v", err)
	}
	scope := strings.NewReplacer(nodeUID, "", targetUID, "", controlUID, "").Replace(example(t, scopeFile))
	if _, err := ParseScope(Freeze(), []byte(scope), Inspection{}); !errors.As(err, &wrong) {
		t.Errorf("empty inspection: %v", err)
	}
}

func TestParsePolicyIgnoreComparesWithPolicyJSON(t *testing.T) {
	l, ignore := Freeze(), []byte(example(t, policyIgnoreJSON))
	other := strings.Replace(string(refPolicy("Fail")), "KCA_ENVIRONMENT_REQUIRED", "other", 1)
	var wrong *Wrong
	if _, err := ParsePolicyIgnore(l, ignore, []byte(other)); !errors.As(err, &wrong) || wrong.Problems[0].Name != "/spec/validations/0/message" {
		t.Errorf("policy.json with another message: %v", err)
	}
	var malformed *strictjson.Error
	if _, err := ParsePolicyIgnore(l, ignore, []byte("{}")); !errors.As(err, &malformed) || malformed.File != policyJSON {
		t.Errorf("policy.json without content: %v", err)
	}
	got, err := ParsePolicyIgnore(l, ignore, refPolicy("Fail"))
	if err != nil || got.FailurePolicy != "Ignore" || string(got.Raw) != string(ignore) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWrongError(t *testing.T) {
	problem := func(path, hint string) verdict.Check {
		return verdict.Check{Name: path, Outcome: verdict.Fail, Expected: "a", Seen: "b", Hint: hint}
	}
	for want, w := range map[string]*Wrong{
		"x.json: /a: expected a, saw b; Do it.":                    {File: "x.json", Problems: []verdict.Check{problem("/a", "Do it.")}},
		"x.json: /a: expected a, saw b":                            {File: "x.json", Problems: []verdict.Check{problem("/a", "")}},
		"x.json: /a: expected a, saw b (and 2 more wrong); Do it.": {File: "x.json", Problems: []verdict.Check{problem("/a", "Do it."), problem("/b", ""), problem("/c", "")}},
		"x.json: the content is wrong":                             {File: "x.json"},
	} {
		if diff := cmp.Diff(want, w.Error()); diff != "" {
			t.Error(diff)
		}
	}
}
