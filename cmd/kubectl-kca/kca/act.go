package kca

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/nodeagent"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// actFlags is what was typed.
type actFlags struct {
	agent       string
	agentImage  string
	agentBinary string
	criSocket   string
	pullSecrets []string
	noWait      bool
}

// actOptions is what an act needs.
type actOptions struct {
	*globals
	flags actFlags
}

const actLong = `Run one step of the drill on the real cluster and write evidence/NN.json.

  1  compare scope.json with the live cluster
  2  create the policy of policy.json and wait for its effective registration
  3  send a labelled and an unlabelled Pod to the healthy webhook
  4  survey the one process that freeze-plan.json may freeze; no signal is sent
  5  freeze it under failurePolicy Fail, send three requests, let the 20 s timer resume it
  6  the same under failurePolicy Ignore (policy-ignore.json), resumed as soon as they are answered
  7  prove that the rule fires again under Ignore (recovery.json)
  8  check report.json against the evidence

An act whose evidence exists is done and refuses to run again. Exit 3 means that something was
changed and could not be observed cleanly: the raw file is kept, and a new lab is needed.`

// newActCommand is the verb `act N`.
func newActCommand(g *globals) *cobra.Command {
	f := actFlags{}
	cmd := &cobra.Command{
		Use:   "act N",
		Short: "Run one step of the drill and keep its evidence",
		Long:  actLong,
		Example: `  kubectl kca act 1
  kubectl kca act 5 --agent=local`,
		Args:              oneStep,
		ValidArgsFunction: completeSteps,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return cli.Usage(fmt.Errorf("expected an act from 1 to %d, saw %q", drill.Acts, args[0]))
			}
			o := &actOptions{globals: g, flags: f}
			if f.agent != nodeagent.ModePod && f.agent != nodeagent.ModeLocal {
				return cli.Usage(fmt.Errorf("--agent: expected pod or local, saw %q", f.agent))
			}
			return o.run(cmd.Context(), n)
		},
	}
	cmd.Flags().StringVar(&f.agent, "agent", nodeagent.ModePod, "where the freezing process runs: pod (a helper Pod on the node) or local (this machine is the node, as root)")
	cmd.Flags().StringVar(&f.agentImage, "agent-image", "", "image of the node agent (default: the one init recorded)")
	cmd.Flags().StringVar(&f.agentBinary, "agent-binary", "", "node agent binary for --agent=local (default: the one beside this plugin)")
	cmd.Flags().StringVar(&f.criSocket, "cri-socket", "", "CRI socket for --agent=local (default: containerd, k3s and CRI-O paths)")
	cmd.Flags().StringSliceVar(&f.pullSecrets, "image-pull-secret", nil, "image pull secret in kube-lab-system for the node agent (repeatable)")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait for the spacing between two freezes; say how long to wait instead (exit 2)")
	return cmd
}

// run is the order of every act: lock, earlier acts, the cluster of act 1, input, work, evidence.
func (o *actOptions) run(ctx context.Context, act int) (err error) {
	if err := o.checkRequestTimeout(); err != nil {
		return err
	}
	lab, err := o.lab()
	if err != nil {
		return err
	}
	store, err := o.openStore()
	if err != nil {
		return err
	}
	release, err := store.Lock()
	if err != nil {
		return err
	}
	defer func() { err = both(err, release()) }()

	r := &actRun{o: o, act: act, lab: lab, store: store, started: o.now(),
		inputs: map[string]string{}, digests: map[int]string{}, records: map[int]drill.Record{}}
	if err := r.earlier(); err != nil {
		return err
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if err := r.steps()[act-1](ctx); err != nil {
		return r.uncertain(interrupted(ctx, r, err))
	}
	fmt.Fprintf(o.streams.Out, "act %d complete: %s\n", act, evidence.EvidenceName(act))
	return nil
}

// steps lists the eight acts in their order.
func (r *actRun) steps() []func(context.Context) error {
	return []func(context.Context) error{
		r.scope, r.register, r.baseline, r.survey, r.freezeUnderFail, r.freezeUnderIgnore, r.recover, r.report,
	}
}

// interrupted turns an error of a run that Ctrl-C ended before any change into exit code 130, unless
// the undo of what was prepared failed: that is uncertain.
func interrupted(ctx context.Context, r *actRun, err error) error {
	var coded *cli.CodedError
	if errors.As(err, &coded) && coded.Code == cli.ExitUncertain {
		return err
	}
	if ctx.Err() != nil && r.raw == nil {
		return cli.Interrupted(fmt.Errorf("act %d was interrupted before anything was changed: %w", r.act, err))
	}
	return err
}

// earlier refuses an act that is done, interrupted or out of order, and reads the evidence that the
// act stands on. Every earlier step has to pass its grade: evidence or inputs that were edited after
// their act stop the drill here.
func (r *actRun) earlier() error {
	for act := 1; act <= drill.Acts; act++ {
		state, err := r.store.ActState(act)
		if err != nil {
			return err
		}
		if state == evidence.Interrupted {
			return cli.No(fmt.Errorf("the lab is uncertain: act %d was interrupted (expected %s beside %s, saw none); keep the raw file, then `kubectl kca rescue` and `kubectl kca reset`, and start over in a new lab",
				act, evidence.EvidenceName(act), evidence.RawName(act)))
		}
		if act == r.act && state == evidence.Done {
			return cli.No(fmt.Errorf("act %d is already done: %s exists and is never overwritten; the next step is shown by `kubectl kca status`", act, evidence.EvidenceName(act)))
		}
		if act < r.act && state != evidence.Done {
			return cli.No(fmt.Errorf("act %d needs act %d first: expected %s, saw none; run `kubectl kca act %d`", r.act, act, evidence.EvidenceName(act), act))
		}
		if act > r.act && state == evidence.Done {
			return cli.No(fmt.Errorf("act %d cannot run after act %d: %s exists and stands on it; `kubectl kca reset` starts a new lab", r.act, act, evidence.EvidenceName(act)))
		}
	}
	var err error
	if r.material, err = readMaterial(r.store, r.lab); err != nil {
		return err
	}
	for act := 1; act < r.act; act++ {
		if err := r.passed(act); err != nil {
			return err
		}
	}
	return r.afterEarlier()
}

// passed refuses an earlier step that does not pass its grade, or that cannot be graded, and keeps
// its record.
func (r *actRun) passed(act int) error {
	checks := drill.Grade(r.material, act)
	switch verdict.Fold(checks) {
	case verdict.Pass:
		return r.load(act, r.material)
	case verdict.Fail:
		return cli.No(fmt.Errorf("act %d needs step %d to pass its grade: %w", r.act, act, firstProblem(checks)))
	default:
		return fmt.Errorf("act %d needs step %d to pass its grade, which cannot be judged: %w", r.act, act, firstProblem(checks))
	}
}

// afterEarlier refuses to run before the act that it stands on was finished: evidence whose times run
// backwards fails its grade.
func (r *actRun) afterEarlier() error {
	last, ok := r.records[r.act-1]
	if !ok {
		return nil
	}
	finished, err := time.Parse(time.RFC3339Nano, last.FinishedAt)
	if err != nil {
		return fmt.Errorf("%s: reading finished_at: %w", evidence.EvidenceName(r.act-1), err)
	}
	if r.started.Before(finished) {
		return fmt.Errorf("this machine's clock: expected a time after act %d, which ended at %s, saw %s; set the clock right, then run act %d again",
			r.act-1, last.FinishedAt, r.started.UTC().Format(time.RFC3339), r.act)
	}
	return nil
}

// load keeps one earlier record and its digest.
func (r *actRun) load(act int, m drill.Material) error {
	name := evidence.EvidenceName(act)
	record, err := drill.DecodeRecord(name, m.Files[name].Data)
	if err != nil {
		return err
	}
	digest, err := digestOf(name, m.Files[name].Data)
	if err != nil {
		return err
	}
	r.records[act], r.digests[act] = record, digest
	return nil
}

// minRequestTimeout is the shortest --request-timeout an act accepts: the hook's own limit and 5 s.
const minRequestTimeout = (drill.HookTimeoutSeconds + 5) * time.Second
