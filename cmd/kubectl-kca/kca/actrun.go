package kca

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/probe"
	"kube-lab.dev/kube-lab/pkg/strictjson"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// readTimeout bounds every single read of an act, so that an API server that stopped answering
// cannot hold an act for ever.
const readTimeout = 10 * time.Second

// actRun is one act in progress: what it may touch, what it has read, and whether it has changed
// anything yet, which decides between the exit codes "not judged" and "uncertain".
type actRun struct {
	o       *actOptions
	act     int
	lab     drill.Lab
	store   *evidence.Store
	env     *clusterEnv
	bind    Binding
	prober  *probe.Prober
	started time.Time
	cluster drill.Cluster
	inspect drill.Inspection
	inputs  map[string]string
	digests map[int]string // canonical digests of the evidence of earlier acts
	records map[int]drill.Record
	// material is the lab's files as this act read them.
	material drill.Material

	raw     *evidence.RawLog
	pending []rawLine // observed before the first change, written when the raw file opens
}

type rawLine struct {
	kind string
	data any
}

// clock is microseconds since the act began, on the monotonic clock.
func (r *actRun) clock() int64 { return r.o.now().Sub(r.started).Microseconds() }

// note keeps one raw observation. Before the first change it is only remembered, because a raw file
// without a final file makes the lab uncertain.
func (r *actRun) note(kind string, data any) error {
	if r.raw == nil {
		r.pending = append(r.pending, rawLine{kind, data})
		return nil
	}
	if err := r.raw.Append(kind, data); err != nil {
		return fmt.Errorf("keeping the raw observation %q: %w", kind, err)
	}
	return nil
}

// changing opens the raw file, writes what was observed so far and the change that is about to be
// made, and syncs: from here on an interruption leaves the lab uncertain, and says so.
func (r *actRun) changing(what string, data any) error {
	if r.raw == nil {
		raw, err := r.store.OpenRaw(r.act)
		if err != nil {
			return fmt.Errorf("opening the raw file of act %d before the first change: %w", r.act, err)
		}
		r.raw = raw
		pending := r.pending
		r.pending = nil
		for _, line := range pending {
			if err := r.note(line.kind, line.data); err != nil {
				return err
			}
		}
	}
	if err := r.note(what, data); err != nil {
		return err
	}
	return r.raw.Sync()
}

// uncertain turns any error after the first change into exit code 3, with the way on.
func (r *actRun) uncertain(err error) error {
	if err == nil || r.raw == nil {
		return err
	}
	return cli.Uncertain(fmt.Errorf("act %d is uncertain: %w; keep %s, then `kubectl kca rescue` and `kubectl kca reset`, and start over in a new lab",
		r.act, err, evidence.RawName(r.act)))
}

func (r *actRun) syncRaw() error {
	if r.raw == nil {
		return nil
	}
	return r.raw.Sync()
}

// both keeps two errors in one line; either may be nil.
func both(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	default:
		return fmt.Errorf("%w; %w", a, b)
	}
}

// firstProblem words the checks that did not pass as one error.
func firstProblem(checks []verdict.Check) error {
	bad := 0
	var first verdict.Check
	for _, c := range checks {
		if c.Outcome == verdict.Pass {
			continue
		}
		if bad == 0 {
			first = c
		}
		bad++
	}
	if bad == 0 {
		return errors.New("nothing could be checked")
	}
	more := ""
	if bad > 1 {
		more = fmt.Sprintf(" (and %d more)", bad-1)
	}
	next := ""
	if first.Hint != "" {
		next = "; " + first.Hint
	}
	return fmt.Errorf("%s: expected %s, saw %s%s%s", first.Name, first.Expected, first.Seen, more, next)
}

// input reads the learner's file of this act and remembers its digest.
func (r *actRun) input() ([]byte, error) {
	name := drill.InputOf(r.act)
	data, err := r.store.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: expected the file in %s, saw none; write it, then run `kubectl kca act %d` again", name, r.store.Path(), r.act)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	digest, err := strictjson.Digest(data)
	if err != nil {
		return nil, inputError(name, err)
	}
	r.inputs[name] = digest
	r.material.Files[name] = drill.File{Data: data}
	return data, nil
}

// inputError gives a reading error the file's name.
func inputError(name string, err error) error {
	var bad *strictjson.Error
	if errors.As(err, &bad) && bad.File == "" {
		named := *bad
		named.File = name
		return &named
	}
	return err
}

// judgedInput maps what the input rules found to the exit table: well-formed and wrong is "no".
func judgedInput(err error) error {
	var wrong *drill.Wrong
	if errors.As(err, &wrong) {
		return cli.No(err)
	}
	return err
}

// unique names a request of this act so that no name is ever used twice.
func (r *actRun) unique(kind string) string {
	return fmt.Sprintf("kca-%02d-%s-%s", r.act, kind, rand.String(6))
}

// facts decodes the facts of an earlier act.
func factsOf[T any](r *actRun, act int) (T, error) {
	record, ok := r.records[act]
	if !ok {
		var none T
		return none, fmt.Errorf("reading the facts of act %d: %s was not read", act, evidence.EvidenceName(act))
	}
	return drill.DecodeFacts[T](record)
}

// bounded runs one read with the read limit.
func bounded[T any](ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	c, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return read(c)
}
