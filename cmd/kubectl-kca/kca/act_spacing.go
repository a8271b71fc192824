package kca

import (
	"context"
	"fmt"
	"time"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
)

// awaitSpacing keeps two liveness periods between freezes: two freezes close together restart the
// container.
func (r *actRun) awaitSpacing(ctx context.Context, journal *nodeagent.Journal, budget drill.Budget) error {
	spacing := time.Duration(budget.SpacingSeconds) * time.Second
	left, err := journal.SpacingLeft(ctx, spacing)
	if err != nil {
		return err
	}
	if r.act == 6 {
		recorded, err := r.sinceAct5(spacing)
		if err != nil {
			return err
		}
		left = max(left, recorded)
	}
	if left <= 0 {
		return nil
	}
	if r.o.flags.noWait {
		return fmt.Errorf("expected %d s since the last resume, saw %d s less; wait %d s and run act %d again, or leave out --no-wait",
			budget.SpacingSeconds, int(left.Seconds()+1), int(left.Seconds()+1), r.act)
	}
	return r.o.pause(ctx, left, "keeping the distance to the last freeze")
}

// sinceAct5 is how long to wait by the record of act 5, which is still there when somebody deleted
// the journal.
func (r *actRun) sinceAct5(spacing time.Duration) (time.Duration, error) {
	fifth, err := factsOf[drill.Act5Facts](r, 5)
	if err != nil {
		return 0, err
	}
	began, err := time.Parse(time.RFC3339Nano, r.records[5].StartedAt)
	if err != nil {
		return 0, fmt.Errorf("%s: reading started_at: %w", evidence.EvidenceName(5), err)
	}
	resumed := began.Add(time.Duration(fifth.Freeze.ResumedSeenUS) * time.Microsecond)
	return resumed.Add(spacing).Sub(r.o.now()), nil
}
