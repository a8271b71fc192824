package nodeagent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// TestServerClock is F-07: the time is the API server's, even if it refuses the request, and not that
// of this machine.
func TestServerClock(t *testing.T) {
	for name, tc := range map[string]struct {
		date string
		code int
		text string
	}{
		"answered":       {date: "Sat, 03 Feb 2001 12:00:00 GMT", code: http.StatusOK},
		"refused":        {date: "Sat, 03 Feb 2001 12:00:00 GMT", code: http.StatusForbidden},
		"without a time": {date: "noon", code: http.StatusOK, text: "expected a Date header"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", tc.date)
				w.WriteHeader(tc.code)
			}))
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			now, err := serverClock(client)
			if err != nil {
				t.Fatal(err)
			}
			got, err := now(t.Context())
			if tc.text != "" {
				if err == nil || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("asked: %s, %v; want %q", got, err, tc.text)
				}
				return
			}
			if err != nil || !got.Equal(noon()) || got.Location() != time.UTC {
				t.Errorf("asked: %s, %v; want %s", got, err, noon())
			}
		})
	}
}

func TestNewJournalNeedsAConnection(t *testing.T) {
	if _, err := NewJournal(fake.NewClientset(), "freeze"); err == nil {
		t.Error("a journal without a connection to ask for the time: no error")
	}
}
