package kca

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// countersBefore reads the API server's own counters for our hook. They are a witness, not a proof:
// who may not read them goes on without. Any other error is one.
func (r *actRun) countersBefore(ctx context.Context) (drill.Witness, error) {
	before, err := bounded(ctx, r.prober.Counters)
	if apierrors.IsForbidden(err) {
		return drill.Witness{Why: err.Error(), Before: map[string]float64{}, After: map[string]float64{}}, nil
	}
	return drill.Witness{Available: true, Before: before, After: map[string]float64{}}, err
}

// countersAfter reads them again. A witness that is asked in vain now leaves a gap, which the rules
// call unknown.
func (r *actRun) countersAfter(ctx context.Context, w drill.Witness) drill.Witness {
	if !w.Available {
		return w
	}
	after, err := bounded(ctx, r.prober.Counters)
	if err != nil {
		w.Why = err.Error()
		return w
	}
	w.After = after
	return w
}
