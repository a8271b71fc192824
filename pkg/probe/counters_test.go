package probe

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const metrics = `# HELP apiserver_admission_webhook_fail_open_count [ALPHA] count
# TYPE apiserver_admission_webhook_fail_open_count counter
apiserver_admission_webhook_fail_open_count{name="` + hook + `",type="validating"} 2
apiserver_admission_webhook_fail_open_count{name="other",type="validating"} 9
apiserver_admission_webhook_rejection_count{type="validating",name="` + hook + `",operation="CREATE",rejection_code="0",error_type="calling_webhook_error"} 4 1712345678000
apiserver_admission_webhook_rejection_count{error_type="no_error",name="` + hook + `",operation="CREATE",rejection_code="400",type="validating",} 1.5e+01
apiserver_admission_webhook_request_total{code="200",name="` + hook + `"} 77
apiserver_admission_webhook_rejection_count_total{name="` + hook + `"} 5
process_open_fds 12
`

func TestCounters(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" || r.Header.Get("Accept") != "text/plain" {
			t.Errorf("saw %s, Accept %q", r.URL.Path, r.Header.Get("Accept"))
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, metrics)
	})
	got, err := p.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		`apiserver_admission_webhook_fail_open_count{name="` + hook + `",type="validating"}`:                                                                          2,
		`apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="` + hook + `",operation="CREATE",rejection_code="0",type="validating"}`: 4,
		`apiserver_admission_webhook_rejection_count{error_type="no_error",name="` + hook + `",operation="CREATE",rejection_code="400",type="validating"}`:            15,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCountersForbidden(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, 403, failure(403, "Forbidden", `forbidden: User "learner" cannot get path "/metrics"`))
	})
	if _, err := p.Counters(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "/metrics") {
		t.Errorf("saw %v", err)
	}
}

func TestParseCountersRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no value":        rejectionCounter + `{name="h"}`,
		"no number":       rejectionCounter + `{name="h"} many`,
		"no quote":        rejectionCounter + `{name="h} 1`,
		"no label":        rejectionCounter + `{="h"} 1`,
		"cut off":         rejectionCounter + `{name="h",`,
		"an endless line": rejectionCounter + strings.Repeat("x", lineLimit+1),
	} {
		if got, err := parseCounters(strings.NewReader(text), "h"); err == nil {
			t.Errorf("%s: saw %v", name, got)
		}
	}
}

func TestParseCountersKnowsEscapes(t *testing.T) {
	got, err := parseCounters(strings.NewReader(failOpenCounter+`{name="h",x="a\"b\\c\nd,}{"} 1`), "h")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{failOpenCounter + `{name="h",x="a\"b\\c\nd,}{"}`: 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzParseCounters looks for input that breaks the parser, or that it reads differently from what
// it writes.
func FuzzParseCounters(f *testing.F) {
	f.Add(metrics)
	f.Add(failOpenCounter + `{name="h"} 1`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseCounters(strings.NewReader(text), "h")
		if err != nil {
			return
		}
		for key := range got {
			again, err := parseCounters(strings.NewReader(key+" 1"), "h")
			if err != nil || len(again) != 1 || again[key] != 1 {
				t.Errorf("%q is read back as %v, %v", key, again, err)
			}
		}
	})
}
