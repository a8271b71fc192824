package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kube-lab.dev/kube-lab/pkg/drill"
)

const hook = "vpol.validate.kyverno.svc-fail-finegrained-kca-webhook-label"

// timeoutMessage is what the API server says when our hook did not answer (facts.md M).
const timeoutMessage = `Internal error occurred: failed calling webhook "` + hook + `": failed to call webhook: Post "https://kyverno-svc.kyverno.svc:443/vpol/kca-webhook-label?timeout=3s": context deadline exceeded`

const denyMessage = `admission webhook "` + hook + `" denied the request: Policy kca-webhook-label failed: KCA_ENVIRONMENT_REQUIRED`

func expected() drill.Expected {
	l := drill.Freeze()
	return drill.Expected{Webhook: hook, Policy: l.Policy, DenyMessage: l.DenyMessage, TimeoutSeconds: 3}
}

// proberFor gives every look at the clock ten milliseconds, however slow the machine is.
func proberFor(t *testing.T, cfg *rest.Config) *Prober {
	t.Helper()
	return proberWithClock(t, cfg, 10_000)
}

func proberWithClock(t *testing.T, cfg *rest.Config, stepUS int64) *Prober {
	t.Helper()
	var now atomic.Int64
	p, err := New(cfg, drill.Freeze(), expected(), "registry.k8s.io/pause:3.10", func() int64 { return now.Add(stepUS) })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func serve(t *testing.T, handler http.HandlerFunc) *Prober {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return proberFor(t, &rest.Config{Host: server.URL})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func failure(code int, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func bad() Request {
	return Request{Kind: "bad", Namespace: "kca-webhook-target", Name: "kca-03-bad-a"}
}

// created answers a create as the API server does: with the Pod that was sent and a UID.
func created(w http.ResponseWriter, r *http.Request, uid string) {
	var pod corev1.Pod
	_ = json.NewDecoder(r.Body).Decode(&pod)
	pod.UID = "pod-uid"
	if uid != "" {
		pod.UID = ""
	}
	writeJSON(w, http.StatusCreated, pod)
}

func TestSendReadsTheServersOwnAnswer(t *testing.T) {
	code := func(n int) *int { return &n }
	for _, tt := range []struct {
		name    string
		answer  http.HandlerFunc
		stepUS  int64 // how long it took, 10 ms when zero
		class   drill.Class
		code    *int
		reason  string
		hook    string
		uid     string
		message string // a part of it
	}{
		{
			name:   "created",
			answer: func(w http.ResponseWriter, r *http.Request) { created(w, r, "") },
			class:  drill.AllowedFast, code: code(201), uid: "pod-uid",
		},
		{
			name:   "created after the hook's whole timeout",
			answer: func(w http.ResponseWriter, r *http.Request) { created(w, r, "") },
			stepUS: 3_010_000,
			class:  drill.AllowedSlow, code: code(201), uid: "pod-uid",
		},
		{
			name:   "deny without a reason",
			answer: func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 400, failure(400, "", denyMessage)) },
			class:  drill.ExplicitDeny, code: code(400), hook: hook, message: "KCA_ENVIRONMENT_REQUIRED",
		},
		{
			name:   "W-11: deny with code 500",
			answer: func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 500, failure(500, "", denyMessage)) },
			class:  drill.ExplicitDeny, code: code(500), hook: hook,
		},
		{
			name: "call timed out",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, 500, failure(500, metav1.StatusReasonInternalError, timeoutMessage))
			},
			class: drill.CallTimeout, code: code(500), reason: "InternalError", hook: hook,
		},
		{
			name: "W-07: call refused",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, 500, failure(500, metav1.StatusReasonInternalError, strings.Replace(timeoutMessage, "context deadline exceeded", "dial tcp 10.0.0.1:9443: connect: connection refused", 1)))
			},
			class: drill.CallError, code: code(500), reason: "InternalError", hook: hook,
		},
		{
			name: "W-03: the whole request ran out of time",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, 504, failure(504, metav1.StatusReasonTimeout, "Timeout: request did not complete within requested timeout - context deadline exceeded"))
			},
			class: drill.APIServerTimeout, code: code(504), reason: "Timeout",
		},
		{
			name: "quota",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, 403, failure(403, metav1.StatusReasonForbidden, "exceeded quota"))
			},
			class: drill.Unrelated, code: code(403), reason: "Forbidden",
		},
		{
			name: "a proxy's page is no Status, whatever client-go makes of it",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, timeoutMessage)
			},
			class: drill.ClientError, message: "an error on the server",
		},
		{
			name: "JSON that is no Status",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, 500, map[string]string{"message": timeoutMessage})
			},
			class: drill.ClientError, message: "saw HTTP 500",
		},
		{
			name: "asked to come again: sent once only",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			},
			class: drill.ClientError, message: "saw HTTP 429 with no body",
		},
		{
			name: "success with another Pod",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, 201, corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "kca-webhook-target", Name: "other", UID: "x"}})
			},
			class: drill.ClientError, message: "expected Pod kca-webhook-target/kca-03-bad-a",
		},
		{
			name:   "success without a UID",
			answer: func(w http.ResponseWriter, r *http.Request) { created(w, r, "none") },
			class:  drill.ClientError, message: "with a UID",
		},
		{
			name: "200 with a login page",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "<html>please log in</html>")
			},
			class: drill.ClientError, message: "saw HTTP 200",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls sync.Map
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, again := calls.LoadOrStore(r.URL.Path, true); again {
					t.Errorf("%s was sent twice", r.URL.Path)
				}
				tt.answer(w, r)
			}))
			t.Cleanup(server.Close)
			p := proberWithClock(t, &rest.Config{Host: server.URL}, max(tt.stepUS, 10_000))
			s := p.Send(t.Context(), bad())
			if s.Class != tt.class || s.Reason != tt.reason || s.Hook != tt.hook || s.UID != tt.uid || !strings.Contains(s.Message, tt.message) {
				t.Errorf("saw class %q reason %q hook %q uid %q message %q", s.Class, s.Reason, s.Hook, s.UID, s.Message)
			}
			if diff := cmp.Diff(tt.code, s.HTTPCode); diff != "" {
				t.Errorf("code (-want +got):\n%s", diff)
			}
			if s.SentUS <= 0 || s.ReceivedUS <= s.SentUS || s.LatencyUS != s.ReceivedUS-s.SentUS {
				t.Errorf("times: %d %d %d", s.SentUS, s.ReceivedUS, s.LatencyUS)
			}
			if s.Stored.State != drill.StoredUnknown {
				t.Errorf("stored before it was asked: %v", s.Stored)
			}
		})
	}
}

func TestSendWithoutAnyAnswerIsAClientError(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		s := proberFor(t, &rest.Config{Host: server.URL}).Send(t.Context(), bad())
		if s.Class != drill.ClientError || s.HTTPCode != nil || !strings.Contains(s.Message, "refused") {
			t.Errorf("saw %+v", s)
		}
	})
	t.Run("W-13: our own limit contains the words of a call that timed out", func(t *testing.T) {
		p := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server see the client leave
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		s := p.Send(ctx, bad())
		if s.Class != drill.ClientError || s.HTTPCode != nil || s.Hook != "" || !strings.Contains(s.Message, "context deadline exceeded") {
			t.Errorf("saw %+v", s)
		}
	})
	t.Run("the connection breaks", func(t *testing.T) {
		p := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if s := p.Send(t.Context(), bad()); s.Class != drill.ClientError || s.HTTPCode != nil {
			t.Errorf("saw %+v", s)
		}
	})
}

func TestNewDropsTheCallersLimits(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(80 * time.Millisecond)
		created(w, r, "")
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, Timeout: 20 * time.Millisecond, QPS: 0.001, Burst: 1}
	p := proberFor(t, cfg)
	for i := range 3 { // W-13: a limiter of the caller's would hold the second one for minutes
		r := bad()
		r.Name = fmt.Sprint("pod-", i)
		if s := p.Send(t.Context(), r); s.Class != drill.AllowedFast {
			t.Fatalf("saw %s: %s", s.Class, s.Message)
		}
	}
	if cfg.Timeout != 20*time.Millisecond || cfg.QPS != 0.001 {
		t.Error("the caller's configuration was changed")
	}
}

func TestSendAsksForTheDrillsPod(t *testing.T) {
	var query, agent string
	var pod corev1.Pod
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query, agent = r.URL.RawQuery, r.UserAgent()
		_ = json.NewDecoder(r.Body).Decode(&pod)
		w.Header().Add("Warning", `299 - "Policy p failed: audit only"`)
		pod.UID = "u"
		writeJSON(w, 201, pod)
	})
	s := p.Send(t.Context(), Request{Kind: "canary", Namespace: "kca-webhook-target", Name: "c", Labels: map[string]string{"environment": "lab"}, DryRun: true})
	if !strings.Contains(query, "dryRun=All") || agent != "kubectl-kca-probe" || !s.DryRun {
		t.Errorf("query %q agent %q", query, agent)
	}
	if diff := cmp.Diff([]string{"Policy p failed: audit only"}, s.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	want := map[string]string{"environment": "lab", "kube-lab.dev/lab": "freeze", "app.kubernetes.io/managed-by": "kube-lab"}
	if diff := cmp.Diff(want, s.Labels); diff != "" {
		t.Errorf("sample labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, pod.Labels); diff != "" {
		t.Errorf("sent labels (-want +got):\n%s", diff)
	}
}
