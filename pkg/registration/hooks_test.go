package registration

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"kube-lab.dev/kube-lab/pkg/drill"
)

func TestCoversPods(t *testing.T) {
	for _, tt := range []struct {
		group, version, operation, resource string
		want                                bool
	}{
		{"", "v1", "CREATE", "pods", true},
		{"*", "*", "*", "*", true},
		{"*", "*", "*", "*/*", true},
		{"", "v1", "CREATE", "pods/*", true}, // the API server's matcher says so
		{"", "v1", "UPDATE", "pods", false},
		{"apps", "v1", "CREATE", "pods", false},
		{"", "v1beta1", "CREATE", "pods", false},
		{"", "v1", "CREATE", "pods/exec", false},
		{"", "v1", "CREATE", "*/exec", false},
		{"", "v1", "CREATE", "podtemplates", false},
		{"", "v1", "CREATE", "", false},
	} {
		rules := []admissionregistrationv1.RuleWithOperations{rule(tt.group, tt.version, tt.operation, tt.resource)}
		if got := coversPods(rules); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	if coversPods(nil) {
		t.Error("no rules cover Pods")
	}
}

func TestHooks(t *testing.T) {
	w := healthy()
	other := entry("vpol.validate.kyverno.svc-fail", "Fail", "/vpol/theirs")
	other.NamespaceSelector, other.TimeoutSeconds = &metav1.LabelSelector{}, nil
	ignored := entry("vpol.validate.kyverno.svc-ignore", "Ignore", "/vpol/ignored")
	harmless := entry("vpol.validate.kyverno.svc-ignore-elsewhere", "Ignore", "/vpol/elsewhere")
	harmless.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "theirs"}}
	verify := entry("monitor-webhooks.kyverno.svc", "Ignore", "/verifymutate") // Kyverno registers it for its Leases
	verify.NamespaceSelector, verify.Rules = nil, []admissionregistrationv1.RuleWithOperations{rule("coordination.k8s.io", "v1", "UPDATE", "leases")}
	own := entry(WebhookName(drill.Freeze(), "Ignore"), "Ignore", "/vpol/kca-webhook-label")
	w.resources.Webhooks = append(w.resources.Webhooks, other, ignored, harmless, verify, own)
	elsewhere := entry("gatekeeper.sh", "Fail", "/")
	elsewhere.ClientConfig.Service.Namespace = "gatekeeper-system"
	alias := entry("alias.example.com", "Fail", "/")
	alias.ClientConfig.Service.Name, alias.NamespaceSelector = "kyverno-alias", nil
	stranger := entry("stranger.example.com", "Fail", "/")
	stranger.ClientConfig.Service.Name = "kyverno-cleanup-controller"
	url := entry("url.example.com", "Fail", "/")
	url.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: ptr("https://example.com")}
	second := healthy().resources
	second.Name = "others"
	second.Webhooks = []admissionregistrationv1.ValidatingWebhook{elsewhere, alias, stranger, url}
	aliasSlice := slice("alias", endpoint("kyverno-1", "pod-1"))
	aliasSlice.Labels["kubernetes.io/service-name"] = "kyverno-alias"
	w.more = []runtime.Object{second, aliasSlice}
	w.mutating = &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "kyverno-resource-mutating-webhook-cfg"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "mutate.kyverno.svc-fail", ClientConfig: ownEntry().ClientConfig, // failurePolicy absent: Fail
			Rules: []admissionregistrationv1.RuleWithOperations{rule("*", "*", "*", "*/*")}, TimeoutSeconds: ptr(int32(10)),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "kube-lab-system"}},
		}},
	}
	r, _ := w.open(t)
	got, err := r.Hooks(t.Context(), ourService(), drill.Freeze())
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Configuration, Kind, Webhook, FailurePolicy string
		Timeout                                     int
		Target, Control, Helper                     bool
	}
	rows := []row{}
	for _, h := range got {
		rows = append(rows, row{h.Configuration, h.Kind, h.Webhook, h.FailurePolicy, h.TimeoutSeconds, h.CoversTargetPods, h.CoversControlPods, h.CoversHelperPods})
	}
	want := []row{
		{policyConfiguration, "validating", policyWebhook, "Fail", 10, false, false, false},
		{"kyverno-resource-mutating-webhook-cfg", "mutating", "mutate.kyverno.svc-fail", "Fail", 10, false, false, true},
		{resourceConfiguration, "validating", "vpol.validate.kyverno.svc-fail", "Fail", 0, true, true, true},
		{resourceConfiguration, "validating", "vpol.validate.kyverno.svc-ignore", "Ignore", 3, true, false, false},
		{"others", "validating", "alias.example.com", "Fail", 3, true, true, true},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHooksStopsAtWhatItMayNotRead(t *testing.T) {
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		r, client := healthy().open(t)
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
		})
		if _, err := r.Hooks(t.Context(), ourService(), drill.Freeze()); !apierrors.IsForbidden(err) {
			t.Errorf("%s: saw %v", resource, err)
		}
	}
}
