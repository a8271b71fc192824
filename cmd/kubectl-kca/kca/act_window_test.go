package kca

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
	"kube-lab.dev/kube-lab/pkg/probe"
	"kube-lab.dev/kube-lab/pkg/registration"
)

const (
	resourceHooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kyverno-resource-validating-webhook-cfg"
	leaderLease   = "/apis/coordination.k8s.io/v1/namespaces/kyverno/leases/kyverno"
)

// hookEntry is an entry for the creation of Pods that Kyverno answers.
func hookEntry(name, failurePolicy, namespace string) map[string]any {
	return map[string]any{
		"name": name, "failurePolicy": failurePolicy, "timeoutSeconds": 3,
		"clientConfig": map[string]any{"caBundle": base64.StdEncoding.EncodeToString([]byte("ca")),
			"service": map[string]any{"namespace": "kyverno", "name": "kyverno-svc", "path": "/vpol/kca-webhook-label", "port": 443}},
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace}},
		"rules":             []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"pods"}}},
	}
}

// registered is an act in a cluster where the drill's policy is registered under Fail.
func registered(t *testing.T) (*apiServer, *actRun) {
	t.Helper()
	s, _ := initialised(t)
	s.change(func(o map[string]map[string]any) {
		for _, name := range []string{target, control, helpers} {
			meta := o[name]["metadata"].(map[string]any)
			if meta["labels"] == nil {
				meta["labels"] = map[string]any{}
			}
			meta["labels"].(map[string]any)["kubernetes.io/metadata.name"] = meta["name"]
		}
		o[resourceHooks] = map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
			"metadata": map[string]any{"name": "kyverno-resource-validating-webhook-cfg", "uid": "hooks", "resourceVersion": "7"},
			"webhooks": []any{hookEntry("vpol.validate.kyverno.svc-fail-finegrained-kca-webhook-label", "Fail", "kca-webhook-target")}}
	})
	config := &rest.Config{Host: s.url, QPS: -1}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	g := &globals{streams: genericiooptions.NewTestIOStreamsDiscard(), now: time.Now}
	started := time.Now().Add(-time.Second)
	return s, &actRun{o: &actOptions{globals: g}, act: 5, lab: drill.Freeze(), started: started, bind: Binding{PodImage: defaultPodImage},
		records: map[int]drill.Record{}, env: &clusterEnv{config: config, client: client, reader: registration.New(client)}}
}

// Everything is given back once; what cannot be is uncertain, also when nothing was frozen.
func TestWindowIsClosedOnce(t *testing.T) {
	s, r := registered(t)
	journal, err := r.journal()
	if err != nil {
		t.Fatal(err)
	}
	w := &window{r: r, live: newLive(r), journal: journal, claimed: true}
	if err := w.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.intercept(func(*http.Request) { t.Error("a window that is closed asked the API server again") })
	if err := w.close(t.Context()); err != nil {
		t.Error(err)
	}
	var coded *cli.CodedError
	frozen := &window{r: r, live: newLive(r), journal: journal, claimed: true, asked: true}
	if err := frozen.close(t.Context()); !errors.As(err, &coded) || coded.Code != cli.ExitUncertain {
		t.Errorf("a process that was never seen running: error %v, want exit code 3", err)
	}
	if err := (&window{r: r, live: newLive(r), journal: journal}).close(t.Context()); err != nil {
		t.Errorf("a journal that was refused: %v", err)
	}
}

// Ctrl-C before any change says so, unless the undo failed.
func TestInterruptedActWhoseUndoFailed(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r := &actRun{act: 5}
	for name, tt := range map[string]struct {
		err  error
		code int
	}{
		"nothing to undo": {context.Canceled, cli.ExitInterrupted},
		"undo failed":     {both(context.Canceled, cli.Uncertain(errors.New("removing the node agent"))), cli.ExitUncertain},
	} {
		var coded *cli.CodedError
		if err := interrupted(ctx, r, tt.err); !errors.As(err, &coded) || coded.Code != tt.code {
			t.Errorf("%s: %v, want exit code %d", name, err, tt.code)
		}
	}
}

func TestMayHold(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"taken":           {nil, true},
		"no answer":       {errors.New("connection reset"), true},
		"forbidden":       {fmt.Errorf("writing: %w", apierrors.NewForbidden(schema.GroupResource{}, "", nil)), false},
		"conflict":        {apierrors.NewConflict(schema.GroupResource{}, "", nil), false},
		"storage timeout": {fmt.Errorf("writing: %w", apierrors.NewServerTimeout(schema.GroupResource{}, "update", 1)), true},
		"gateway timeout": {apierrors.NewTimeoutError("request did not complete", 1), true},
		"server error":    {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), true},
		"a status of 0":   {&apierrors.StatusError{}, true},
		"held by another": {&nodeagent.HeldError{}, false},
		"still stopped":   {&nodeagent.StoppedError{}, false},
	} {
		if got := mayHold(tt.err); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The record of act 5 keeps the distance also when the journal was deleted.
func TestSpacingByTheRecordOfAct5(t *testing.T) {
	_, r := registered(t)
	journal, err := r.journal()
	if err != nil {
		t.Fatal(err)
	}
	r.act, r.o.flags.noWait = 6, true
	for began, wait := range map[time.Duration]bool{time.Minute: true, time.Hour: false} {
		facts := encoded(t, drill.Act5Facts{Freeze: drill.FreezeFact{ResumedSeenUS: 30_000_000}})
		r.records[5] = drill.Record{Act: 5, StartedAt: time.Now().Add(-began).UTC().Format(time.RFC3339Nano), Facts: facts}
		err := r.awaitSpacing(t.Context(), journal, drill.Budget{SpacingSeconds: 60})
		if (err != nil) != wait || err != nil && !strings.Contains(err.Error(), "run act 6 again") {
			t.Errorf("act 5 began %s ago: error %v", began, err)
		}
	}
}

// Only who may not read the counters goes on without them.
func TestCountersThatCannotBeRead(t *testing.T) {
	_, r := registered(t)
	for code, ok := range map[int]bool{http.StatusForbidden: true, http.StatusNotFound: false} {
		answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			respond(w, code, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
				"reason": map[int]string{http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound"}[code]})
		})
		prober, err := probe.New(served(t, answer), r.lab, drill.Expected{Webhook: "w"}, defaultPodImage, r.clock)
		if err != nil {
			t.Fatal(err)
		}
		r.prober = prober
		witness, err := r.countersBefore(t.Context())
		if (err == nil) != ok || ok && (witness.Available || witness.Why == "") {
			t.Errorf("code %d: %+v, %v", code, witness, err)
		}
		after := r.countersAfter(t.Context(), drill.Witness{Available: true})
		if !after.Available || after.Why == "" {
			t.Errorf("code %d after the freeze: %+v, want a gap that says why", code, after)
		}
	}
}
