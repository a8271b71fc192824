package drill

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

func TestCheckRegistration(t *testing.T) {
	for _, policy := range []string{"Fail", "Ignore"} {
		if got := failing(CheckRegistration(Freeze(), refRegistration(policy, 1), policy)); len(got) != 0 {
			t.Errorf("under %s: %q", policy, got)
		}
	}
	pods := func(groups, versions, operations, resources string) []HookRule {
		return []HookRule{{APIGroups: []string{groups}, APIVersions: []string{versions}, Operations: []string{operations}, Resources: []string{resources}}}
	}
	for name, c := range map[string]struct {
		spoil func(*Registration)
		want  []string
	}{
		"K-11 timeout 10":            {func(r *Registration) { r.TimeoutSeconds = 10 }, []string{"timeout"}},
		"K-03 others' configuration": {func(r *Registration) { r.Configuration = "kyverno-ttl-validating-webhook-cfg" }, []string{"configuration"}},
		"K-05 entry is gone":         {func(r *Registration) { r.Webhook = "" }, []string{"webhook"}},
		"K-13 the catch-all":         {func(r *Registration) { r.Webhook = "vpol.validate.kyverno.svc-fail" }, []string{"webhook"}},
		"K-23 no rules yet":          {func(r *Registration) { r.Rules = nil }, []string{"rule"}},
		"K-17 rules of autogen only": {func(r *Registration) { r.Rules = r.Rules[1:] }, []string{"rule"}},
		"rule for updates":           {func(r *Registration) { r.Rules = pods("", "v1", "UPDATE", "pods") }, []string{"rule"}},
		"rule for a subresource":     {func(r *Registration) { r.Rules = pods("", "v1", "CREATE", "pods/ephemeralcontainers") }, []string{"rule"}},
		"rule for another group":     {func(r *Registration) { r.Rules = pods("apps", "v1", "CREATE", "pods") }, []string{"rule"}},
		"rule for everything":        {func(r *Registration) { r.Rules = pods("*", "*", "*", "*/*") }, nil},
		"selector as an expression": {func(r *Registration) {
			r.NamespaceSelector = jsontext.Value(`{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["kca-webhook-target"]}]}`)
		}, nil},
		"selector for two": {func(r *Registration) {
			r.NamespaceSelector = jsontext.Value(`{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["kca-webhook-target","default"]}]}`)
		}, []string{"namespace selector"}},
		"no namespace selector":      {func(r *Registration) { r.NamespaceSelector = jsontext.Value(`null`) }, []string{"namespace selector"}},
		"unreadable selector":        {func(r *Registration) { r.NamespaceSelector = jsontext.Value(`[]`) }, []string{"namespace selector"}},
		"no object selector":         {func(r *Registration) { r.ObjectSelector = jsontext.Value(`null`) }, nil},
		"object selector not read":   {func(r *Registration) { r.ObjectSelector = nil }, []string{"object selector"}},
		"object selector selects":    {func(r *Registration) { r.ObjectSelector = jsontext.Value(`{"matchLabels":{"a":"b"}}`) }, []string{"object selector"}},
		"object selector is no such": {func(r *Registration) { r.ObjectSelector = jsontext.Value(`"x"`) }, []string{"object selector"}},
		"the helper is selected":     {func(r *Registration) { r.SelectsHelper = true }, []string{"selector and helper"}},
		"merged with another policy": {func(r *Registration) { r.Service.Path = "/vpol/kca-webhook-label/other" }, []string{"service"}},
		"no service":                 {func(r *Registration) { r.Service = ServiceRef{} }, []string{"service"}},
		"no identity":                {func(r *Registration) { r.ConfigurationUID = "" }, []string{"configuration identity"}},
		"other failure policy":       {func(r *Registration) { r.FailurePolicy = "Ignore" }, []string{"failure policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := refRegistration("Fail", 1)
			c.spoil(&r)
			if diff := cmp.Diff(c.want, failing(CheckRegistration(Freeze(), r, "Fail"))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if verdict.Fold(CheckRegistration(Freeze(), Registration{}, "Fail")) == verdict.Pass {
		t.Error("an empty registration is effective")
	}
}

func TestSameRegistration(t *testing.T) {
	then := refRegistration("Fail", 1)
	now := refRegistration("Fail", 99)
	now.ResourceVersion = "4712"
	now.NamespaceSelector = jsontext.Value(`{ "matchExpressions":[{"key":"kubernetes.io/metadata.name","values":["kube-system"],"operator":"NotIn"}], "matchLabels":{"kubernetes.io/metadata.name":"kca-webhook-target"}}`)
	if got := failing(SameRegistration(then, now)); len(got) != 0 {
		t.Errorf("only read again: %q", got)
	}
	now.Rules = slices.Concat(now.Rules, now.Rules)
	now.CABundleSHA256 = "other"
	if diff := cmp.Diff([]string{"CA bundle", "rules"}, failing(SameRegistration(then, now))); diff != "" {
		t.Error(diff)
	}
	if verdict.Fold(SameRegistration(Registration{}, Registration{})) == verdict.Pass {
		t.Error("two empty registrations are the same")
	}
	renewed := refRegistration("Fail", 1)
	renewed.CABundleSHA256 = "renewed"
	if got := failing(sameEntry(then, renewed)); len(got) != 0 {
		t.Errorf("renewed certificate: %q", got)
	}
}
