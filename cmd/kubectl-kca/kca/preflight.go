package kca

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/registration"
	"kube-lab.dev/kube-lab/pkg/setup"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

const (
	// leastKubernetes is the oldest version whose API the drill needs.
	leastKubernetes = "1.30"
	// testedKyverno is the version whose registration the drill knows.
	testedKyverno = "1.19"
	// kyvernoNamespace is where rights are asked for when no admission Pod was found.
	kyvernoNamespace = "kyverno"
)

// preflight is what init and doctor ask of a cluster before any act. It changes nothing.
type preflight struct {
	env *clusterEnv
	lab drill.Lab
	// backend is who answers for Kyverno; zero when that could not be read.
	backend drill.Backend
}

// checkServer asks for the server's version.
func (p *preflight) checkServer(context.Context) []verdict.Check {
	const name = "Kubernetes"
	expected := "version " + leastKubernetes + " or newer"
	info, err := p.env.client.Discovery().ServerVersion()
	if err != nil {
		return []verdict.Check{undecided(name, expected, err)}
	}
	seen, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return []verdict.Check{verdict.Undecided(name, expected, info.GitVersion, "use a released version of Kubernetes")}
	}
	return []verdict.Check{verdict.If(seen.AtLeast(version.MustParseGeneric(leastKubernetes)), name, expected, info.GitVersion, "use a newer cluster")}
}

// checkKyverno looks for the kind of policy and for the one Pod that answers.
func (p *preflight) checkKyverno(ctx context.Context) []verdict.Check {
	const kind, pod = "policy kind", "admission controller"
	served := verdict.Check{Name: kind, Outcome: verdict.Pass, Expected: "ValidatingPolicy v1 served", Seen: "served"}
	var missing *registration.NotServed
	if err := p.env.reader.ServesPolicies(ctx); errors.As(err, &missing) {
		served = verdict.If(false, kind, served.Expected, missing.Seen, "install Kyverno "+testedKyverno+": kubectl kca init --install-kyverno FILE|URL")
	} else if err != nil {
		served = undecided(kind, served.Expected, err)
	}
	expected := "exactly one ready Pod, not rolling"
	backend, err := p.env.reader.Admission(ctx, func() int64 { return 0 })
	if err != nil {
		return []verdict.Check{served, judged(pod, expected, err, "then run this again")}
	}
	p.backend = backend
	seen := fmt.Sprintf("Pod %s/%s on node %s, image %s", backend.Pod.Namespace, backend.Pod.Name, backend.Node.NodeName, backend.Image)
	if other := otherKyverno(backend.Image); other != "" {
		seen += fmt.Sprintf(" (version %s is untried, the drill was measured with %s)", other, testedKyverno)
	}
	return []verdict.Check{served, {Name: pod, Outcome: verdict.Pass, Expected: expected, Seen: seen}}
}

// otherKyverno is the version in an image's tag when it is another than the tested one.
func otherKyverno(image string) string {
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	v, err := version.ParseGeneric(tag)
	if err != nil || strings.HasPrefix(v.String(), testedKyverno+".") {
		return ""
	}
	return v.String()
}

// checkRights asks for every right that the drill needs, one check for each kind of object.
func (p *preflight) checkRights(ctx context.Context) []verdict.Check {
	namespace := p.backend.Pod.Namespace
	if namespace == "" {
		namespace = kyvernoNamespace
	}
	rights, err := setup.Rights(namespace, p.lab.Target, p.lab.Control)
	if err == nil {
		rights, err = setup.Ask(ctx, p.env.client, rights)
	}
	if err != nil {
		return []verdict.Check{undecided("rights", "every right of the drill", err)}
	}
	return rightChecks(rights)
}

// rightChecks makes one check of all rights on the same object. A right that is optional and missing
// is told and does no harm.
func rightChecks(rights []setup.Right) []verdict.Check {
	var order []string
	all, denied := map[string][]string{}, map[string][]string{}
	optional := map[string]bool{}
	for _, r := range rights {
		_, object, _ := strings.Cut(r.String(), " ")
		if all[object] == nil {
			order = append(order, object)
		}
		all[object] = append(all[object], r.Verb)
		optional[object] = r.Optional
		if !r.Allowed {
			denied[object] = append(denied[object], r.Verb)
		}
	}
	var checks []verdict.Check
	for _, object := range order {
		expected, seen := strings.Join(all[object], ", "), "allowed"
		if len(denied[object]) > 0 {
			seen = "no right to " + strings.Join(denied[object], ", ")
		}
		if optional[object] {
			expected += " (optional)"
		}
		checks = append(checks, verdict.If(len(denied[object]) == 0 || optional[object], "right: "+object, expected, seen,
			"ask the cluster's administrator for it, or use another --context"))
	}
	return checks
}

// judged is the check for an error of the reader: what the cluster answered is a failure, what it
// did not answer is unknown.
func judged(name, expected string, err error, hint string) verdict.Check {
	if unreadable(err) {
		return undecided(name, expected, err)
	}
	return verdict.If(false, name, expected, err.Error(), hint)
}

func undecided(name, expected string, err error) verdict.Check {
	return verdict.Undecided(name, expected, err.Error(), "see that the API server can be reached and the object may be read, then run this again")
}

// unreadable reports whether an error means that nothing is known, because the API server refused
// to answer or could not be reached. Absent is an answer.
func unreadable(err error) bool {
	var status apierrors.APIStatus
	var call *url.Error
	return errors.As(err, &status) && !apierrors.IsNotFound(err) || errors.As(err, &call) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
