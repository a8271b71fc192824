package kca

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/manifests"
	"kube-lab.dev/kube-lab/pkg/report"
	"kube-lab.dev/kube-lab/pkg/setup"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// confirm shows which cluster this is and wants its context's name, typed or by --confirm.
func (r *initRun) confirm(ctx context.Context) error {
	nodes, err := r.env.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	// Without an answer no node is marked; what is wrong with Kyverno is said by the preflight.
	admission, _ := r.env.reader.Admission(ctx, func() int64 { return 0 })
	var names []string
	for _, n := range nodes.Items {
		about := n.Status.NodeInfo.KubeletVersion
		if n.Name == admission.Node.NodeName {
			about += ", runs the admission controller"
		}
		names = append(names, fmt.Sprintf("%s (%s)", n.Name, about))
	}
	r.tell("The drill stops Kyverno's admission controller, twice, for at most 20 s each, and creates namespaces,")
	r.tell("a policy and Pods. Use it on a cluster that you can throw away, and on no other.\n")
	r.tell("  context  %s\n  server   %s\n  nodes    %s\n", report.Escape(r.env.context), report.Escape(r.env.server), report.Escape(strings.Join(names, ", ")))
	typed := r.flags.confirm
	if !r.given("confirm") {
		fmt.Fprintf(r.streams.ErrOut, "Type the name of the context to go on: ")
		typed, err = readLine(ctx, r.streams.In)
		if err != nil || !printers.IsTerminal(r.streams.In) { // a person's Enter has ended the line
			fmt.Fprintln(r.streams.ErrOut)
		}
		if err != nil {
			return err
		}
	}
	if typed != r.env.context {
		return fmt.Errorf("expected the name of the context, %q, typed back or given with --confirm, saw %q; nothing was changed", r.env.context, typed)
	}
	return nil
}

// readLine reads one line, and gives up when ctx ends: a read from a terminal cannot be cancelled,
// so its goroutine stays until the program ends.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(in).ReadString('\n')
		read <- answer{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case a := <-read:
		if a.err != nil && !errors.Is(a.err, io.EOF) {
			return "", fmt.Errorf("reading the name of the context: %w", a.err)
		}
		return strings.TrimRight(a.line, "\r\n"), nil
	}
}

// installKyverno applies a manifest and waits until the one admission Pod answers.
func (r *initRun) installKyverno(ctx context.Context) error {
	objects, err := setup.Manifest(ctx, r.flags.install)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(r.env.client.Discovery()))
	r.tell("applying %d objects of %s", len(objects), r.flags.install)
	err = setup.Apply(ctx, r.env.dynamic, mapper, objects, func(done, all int, what string) {
		r.changed = true
		if done%25 == 0 || done == all {
			r.tell("  %d of %d applied (%s)", done, all, report.Escape(what))
		}
	})
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, time.Second, kyvernoLimit, true, func(ctx context.Context) (bool, error) {
		_, err := r.env.reader.Admission(ctx, func() int64 { return 0 })
		if err == nil {
			err = r.env.reader.ServesPolicies(ctx)
		}
		if err != nil && (last == nil || last.Error() != err.Error()) {
			r.tell("waiting for Kyverno: %s", report.Escape(err.Error()))
		}
		last = err
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return false, err
		}
		return err == nil, nil
	})
	if err != nil && ctx.Err() == nil && wait.Interrupted(err) {
		return fmt.Errorf("expected Kyverno ready within %s: %w", kyvernoLimit, last)
	}
	if err != nil {
		return fmt.Errorf("waiting for Kyverno: %w", err)
	}
	return nil
}

// ready checks everything that the acts need and plans the namespaces. It changes nothing.
func (r *initRun) ready(ctx context.Context) (setup.Plan, error) {
	p := &preflight{env: r.env, lab: r.lab}
	checks := append(p.checkServer(ctx), p.checkKyverno(ctx)...)
	checks = append(checks, p.checkRights(ctx)...)
	checks = append(checks, r.checkPolicy(ctx))
	plan, planned := r.plan(ctx)
	checks = append(checks, planned)
	group := report.Group{ID: "init", Name: "preflight", Checks: checks}
	if err := report.Checks(r.streams.ErrOut, report.Text, "", []report.Group{group}); err != nil {
		return plan, err
	}
	if outcome := verdict.Fold(checks); outcome != verdict.Pass {
		for _, c := range checks {
			if c.Outcome != verdict.Pass {
				return plan, fmt.Errorf("%s: expected %s, saw %s; no lab was bound", c.Name, c.Expected, c.Seen)
			}
		}
	}
	return plan, nil
}

// checkPolicy refuses a policy that an earlier lab left, before act 2 would stumble over it.
func (r *initRun) checkPolicy(ctx context.Context) verdict.Check {
	name, expected := "policy "+r.lab.Policy, "none before act 2"
	state, err := r.store.ActState(2)
	if err != nil {
		return undecided(name, expected, err)
	}
	if state != evidence.Missing {
		return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: "act 2 of this lab has begun"}
	}
	live, err := r.env.policies.Get(ctx, r.lab.Policy)
	if apierrors.IsNotFound(err) {
		return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: "none"}
	}
	if err != nil {
		return undecided(name, expected, err)
	}
	return verdict.If(false, name, expected, "one with UID "+live.UID, "kubectl delete validatingpolicies.policies.kyverno.io "+r.lab.Policy+", if it is yours to delete")
}

func (r *initRun) plan(ctx context.Context) (setup.Plan, verdict.Check) {
	const name, expected = "namespaces", "free names, or the lab's own namespaces"
	wanted, err := manifests.Namespaces(r.lab.Name, r.lab.Target, r.lab.Control)
	if err != nil {
		return setup.Plan{}, undecided(name, expected, err)
	}
	var known map[string]string
	if r.before != nil {
		known = r.before.Namespaces
	}
	plan, err := setup.PlanNamespaces(ctx, r.env.client, wanted, known)
	if err != nil {
		return setup.Plan{}, judged(name, expected, err, "")
	}
	seen := fmt.Sprintf("%d to create", len(plan.Create))
	if len(plan.Exist) > 0 {
		seen += ", there already: " + strings.Join(slices.Sorted(maps.Keys(plan.Exist)), ", ")
	}
	return plan, verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: seen}
}

func (r *initRun) createNamespaces(ctx context.Context, plan setup.Plan) (map[string]string, error) {
	if len(plan.Create) > 0 {
		r.changed = true
	}
	uids, err := setup.CreateNamespaces(ctx, r.env.client, plan)
	if err != nil {
		return nil, err
	}
	for _, ns := range plan.Create {
		r.tell("created namespace %s", ns.Name)
	}
	return uids, setup.AwaitServiceAccounts(ctx, r.env.client, slices.Sorted(maps.Keys(uids)), accountLimit)
}
