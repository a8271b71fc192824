package nodeagent

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// clock tells the time of the cluster. Its answer is rounded down to a whole second.
type clock func(context.Context) (time.Time, error)

// clockStep is how much later than its answer a clock may really be.
const clockStep = time.Second

// serverClock reads the API server's clock from the Date header of an answer. The journal outlives
// this machine's process and is read from other machines, whose clocks may differ (F-07).
func serverClock(client kubernetes.Interface) (clock, error) {
	c, ok := client.Discovery().RESTClient().(*rest.RESTClient)
	if !ok || c == nil || c.Client == nil {
		return nil, fmt.Errorf("opening the freeze journal: expected a client with an HTTP connection, saw %T", client)
	}
	url := c.Get().AbsPath("/version").URL().String()
	return func(ctx context.Context) (time.Time, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil) //nolint:gosec // the address is the kubeconfig's own server
		if err != nil {
			return time.Time{}, fmt.Errorf("asking the API server for the time: %w", err)
		}
		answer, err := c.Client.Do(req) //nolint:gosec // as above
		if err != nil {
			return time.Time{}, fmt.Errorf("asking the API server for the time: %w", err)
		}
		defer answer.Body.Close() //nolint:errcheck // only the header is read
		// Any answer will do, also a refusal: every one carries the header.
		at, err := http.ParseTime(answer.Header.Get("Date"))
		if err != nil {
			return time.Time{}, fmt.Errorf("asking the API server for the time: expected a Date header, saw %q: %w", answer.Header.Get("Date"), err)
		}
		return at.UTC(), nil
	}, nil
}
