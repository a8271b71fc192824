package registration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// NotRegistered says that the API server is not told to call for the lab's policy, and what it is
// told instead. It is never used for an answer that could not be read.
type NotRegistered struct {
	Webhook string // the entry that was looked for
	Seen    string // what there is instead
}

func (e *NotRegistered) Error() string {
	return fmt.Sprintf("webhook %s: expected an entry in %s, saw %s", e.Webhook, resourceConfiguration, e.Seen)
}

// Find reads the entry of the lab's policy with this failurePolicy and evaluates its selector on the
// live namespaces. An entry that is not there is a *NotRegistered. Whether the entry is effective is
// for the rules to say.
func (r *Reader) Find(ctx context.Context, l drill.Lab, failurePolicy string, at Clock) (drill.Registration, error) {
	name := WebhookName(l, failurePolicy)
	cfg, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, resourceConfiguration, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return drill.Registration{}, &NotRegistered{Webhook: name, Seen: "no such configuration (Kyverno is missing, or was scaled to zero and took it away)"}
	}
	if err != nil {
		return drill.Registration{}, fmt.Errorf("reading ValidatingWebhookConfiguration %s: %w", resourceConfiguration, err)
	}
	readAt := at()
	i := slices.IndexFunc(cfg.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == name })
	if i < 0 {
		return drill.Registration{}, &NotRegistered{Webhook: name, Seen: insteadOf(l, cfg.Webhooks)}
	}
	hook := cfg.Webhooks[i]
	found, err := entryFacts(hook)
	if err != nil {
		return drill.Registration{}, err
	}
	found.Configuration, found.ConfigurationUID = cfg.Name, string(cfg.UID)
	found.ResourceVersion, found.ReadUS = cfg.ResourceVersion, readAt
	for _, look := range []struct {
		namespace string
		selected  *bool
	}{{l.Target, &found.SelectsTarget}, {l.Control, &found.SelectsControl}, {drill.HelperNamespace, &found.SelectsHelper}} {
		ns, err := r.namespace(ctx, look.namespace)
		if err != nil {
			return drill.Registration{}, err
		}
		if *look.selected, err = selects(hook.NamespaceSelector, ns); err != nil {
			return drill.Registration{}, fmt.Errorf("evaluating the namespaceSelector of webhook %s: %w", name, err)
		}
	}
	return found, nil
}

// insteadOf describes a list without our entry: not built yet (K-05, K-23), the other failurePolicy,
// merged with other policies, or other policies' entries only.
func insteadOf(l drill.Lab, hooks []admissionregistrationv1.ValidatingWebhook) string {
	if len(hooks) == 0 {
		return "no entries in it (yet)"
	}
	var others []string
	for _, w := range hooks {
		if w.Name == WebhookName(l, "Fail") || w.Name == WebhookName(l, "Ignore") {
			return "entry " + w.Name
		}
		if s := w.ClientConfig.Service; s != nil && s.Path != nil && slices.Contains(strings.Split(*s.Path, "/"), l.Policy) {
			return fmt.Sprintf("the policy in entry %s (path %s)", w.Name, *s.Path)
		}
		others = append(others, w.Name)
	}
	if len(others) > 3 {
		others = append(others[:3], "…")
	}
	return fmt.Sprintf("%d other entries (%s)", len(hooks), strings.Join(others, ", "))
}

// entryFacts copies one entry. Fields that the API server always fills are zero when absent, so that
// no rule takes an absent one for the expected one.
func entryFacts(w admissionregistrationv1.ValidatingWebhook) (drill.Registration, error) {
	facts := drill.Registration{Webhook: w.Name, Rules: ruleFacts(w.Rules), MatchConditions: len(w.MatchConditions)}
	if w.FailurePolicy != nil {
		facts.FailurePolicy = string(*w.FailurePolicy)
	}
	if w.TimeoutSeconds != nil {
		facts.TimeoutSeconds = int(*w.TimeoutSeconds)
	}
	if len(w.ClientConfig.CABundle) > 0 {
		sum := sha256.Sum256(w.ClientConfig.CABundle)
		facts.CABundleSHA256 = hex.EncodeToString(sum[:])
	}
	service, ok := serviceFacts(w.ClientConfig)
	if !ok {
		return facts, fmt.Errorf("webhook %s: expected it to call a Service, saw a URL; the drill cannot tell which Pod answers there", w.Name)
	}
	facts.Service = service
	var err error
	if facts.NamespaceSelector, err = selectorFacts(w.NamespaceSelector); err != nil {
		return facts, err
	}
	facts.ObjectSelector, err = selectorFacts(w.ObjectSelector)
	return facts, err
}

// serviceFacts copies the Service of an entry, with the defaults of the API.
func serviceFacts(c admissionregistrationv1.WebhookClientConfig) (drill.ServiceRef, bool) {
	if c.Service == nil {
		return drill.ServiceRef{}, false
	}
	ref := drill.ServiceRef{Namespace: c.Service.Namespace, Name: c.Service.Name, Port: 443}
	if c.Service.Path != nil {
		ref.Path = *c.Service.Path
	}
	if c.Service.Port != nil {
		ref.Port = int(*c.Service.Port)
	}
	return ref, true
}

// selectorFacts is a selector as registered: null when absent.
func selectorFacts(s *metav1.LabelSelector) (jsontext.Value, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding a selector: %w", err)
	}
	return jsontext.Value(data), nil
}
