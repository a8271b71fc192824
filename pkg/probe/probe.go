// Package probe sends the drill's requests to the API server, times them, and reads back what was
// stored and what the API server itself counted.
package probe

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// Clock returns microseconds since the act began, on a monotonic clock.
type Clock func() int64

// The limits of single requests. A request may take the hook's timeout and some seconds more before
// it is given up; one that outlives the longest freeze says nothing about it any more.
const (
	requestLimit = 30 * time.Second
	marginLimit  = 5 * time.Second
	readLimit    = 10 * time.Second
)

// Prober sends requests for one lab and classifies their answers against one webhook entry. It is
// safe for concurrent use.
type Prober struct {
	client   rest.Interface
	lab      drill.Lab
	expected drill.Expected
	image    string
	clock    Clock
	limit    time.Duration
}

// New returns a Prober on a connection of its own settings: no client-side rate limit, which could
// delay a request or run out of time before it is sent (W-13), no client timeout, plain JSON, and
// warnings kept with the sample instead of printed.
func New(cfg *rest.Config, l drill.Lab, expected drill.Expected, image string, clock Clock) (*Prober, error) {
	own := rest.CopyConfig(cfg)
	own.GroupVersion, own.APIPath = &corev1.SchemeGroupVersion, "/api"
	own.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	own.ContentType, own.AcceptContentTypes = "application/json", "application/json"
	own.UserAgent = "kubectl-kca-probe"
	own.QPS, own.Burst, own.RateLimiter, own.Timeout = -1, 0, nil, 0
	own.WarningHandler, own.WarningHandlerWithContext = rest.NoWarnings{}, nil
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection for timed requests: %w", err)
	}
	limit := max(requestLimit, time.Duration(expected.TimeoutSeconds)*time.Second+marginLimit)
	return &Prober{client: client, lab: l, expected: expected, image: image, clock: clock, limit: limit}, nil
}

// together is how many requests one window sends at the same time.
const together = 3

// WarmUp opens as many connections as a window needs, so that no handshake or login plugin is timed
// with a request.
func (p *Prober) WarmUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for range together {
		group.Go(func() error { return p.client.Get().AbsPath("/version").Do(ctx).Error() })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("connecting to the API server before the timed requests: %w", err)
	}
	return nil
}

// SendTogether sends all requests at the same time and returns their samples in the same order.
// onAnswer, which may be nil, is called for each sample as it comes in, from several goroutines.
func (p *Prober) SendTogether(ctx context.Context, requests []Request, onAnswer func(drill.Sample)) []drill.Sample {
	samples := make([]drill.Sample, len(requests))
	start := make(chan struct{})
	var group errgroup.Group
	for i, r := range requests {
		body, err := p.body(r)
		group.Go(func() error {
			<-start
			samples[i] = p.send(ctx, r, body, err)
			if onAnswer != nil {
				onAnswer(samples[i])
			}
			return nil
		})
	}
	close(start)
	_ = group.Wait() // no goroutine returns an error: what went wrong is in the sample
	return samples
}

// Send sends one request and classifies the answer. Whether anything was stored is for Stored to say.
func (p *Prober) Send(ctx context.Context, r Request) drill.Sample {
	body, err := p.body(r)
	return p.send(ctx, r, body, err)
}
