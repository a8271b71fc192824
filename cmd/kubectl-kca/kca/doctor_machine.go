package kca

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

const (
	// skewLimit is how far this machine's clock may be from the server's. Evidence holds wall times
	// of both, and the server tells its own in whole seconds.
	skewLimit = 5 * time.Second
	dateLimit = 10 * time.Second
)

// machine judges the plugin's own file and the lab's folder.
func (d *doctorRun) machine() []verdict.Check {
	return []verdict.Check{d.pluginFile(), d.folder(), d.labFile(), d.acts(), d.sudo()}
}

// pluginFile finds a second copy of the plugin, of which kubectl would run the first on PATH. One
// file that PATH leads to twice is no second copy (C-01).
func (d *doctorRun) pluginFile() verdict.Check {
	const name, expected = "plugin on PATH", "one kubectl-kca"
	found := cli.OnPath("kubectl-kca")
	if len(found) == 0 {
		return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: "none: kubectl does not know this plugin, it was called directly"}
	}
	return verdict.If(len(found) == 1, name, expected, strings.Join(found, ", "), "kubectl runs the first; remove the others")
}

// folder opens the lab's folder and takes its lock, which needs everything that an act needs.
func (d *doctorRun) folder() verdict.Check {
	const name, expected = "lab folder", "a folder of yours, no link, writable"
	store, err := d.openStore()
	if err != nil {
		return verdict.If(false, name, expected, err.Error(), "mend that, or use another --lab-home")
	}
	release, err := store.Lock()
	if err == nil {
		err = release()
	}
	if err != nil {
		return verdict.If(false, name, expected, err.Error(), "mend that, or use another --lab-home")
	}
	d.store = store
	return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: store.Path()}
}

// labFile reads lab.json. A lab that does not exist yet is no finding.
func (d *doctorRun) labFile() verdict.Check {
	const name, expected = bindingFile, "as init wrote it, or none yet"
	if d.store == nil {
		return verdict.Undecided(name, expected, "no folder", "see the lab folder above")
	}
	if there, err := d.store.Exists(bindingFile); err == nil && !there {
		return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: "none yet: kubectl kca init"}
	}
	bind, err := d.binding(d.store)
	if err != nil {
		return verdict.If(false, name, expected, err.Error(), "kubectl kca reset --archive-only puts the lab away")
	}
	d.bind = &bind
	return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: "bound to context " + bind.Context}
}

// sudo warns of a home folder that sudo switched (C-13).
func (d *doctorRun) sudo() verdict.Check {
	const name, expected = "sudo", "your own kubeconfig and lab folder in use"
	hint := cli.SudoHint(*d.kube.KubeConfig)
	if hint == "" {
		return verdict.Check{Name: name, Outcome: verdict.Pass, Expected: expected, Seen: "no change by sudo"}
	}
	return verdict.If(false, name, expected, hint, "sudo -E keeps the environment")
}

// connection judges the way to the API server, and leaves the clients behind when there is one.
func (d *doctorRun) connection(ctx context.Context) []verdict.Check {
	const name, expected = "kubeconfig", "a context that names a cluster"
	env, err := d.globals.cluster(ctx)
	if err != nil {
		return []verdict.Check{verdict.If(false, name, expected, err.Error(), "kubectl config get-contexts lists what there is")}
	}
	from := cli.Kubeconfig(*d.kube.KubeConfig)
	checks := []verdict.Check{{Name: name, Outcome: verdict.Pass, Expected: expected,
		Seen: fmt.Sprintf("context %s (%s) from %s", env.context, env.server, from)}}
	pre := &preflight{env: env, lab: d.lab}
	server := pre.checkServer(ctx)
	if verdict.Fold(server) != verdict.Unknown {
		d.env, d.pre = env, pre
		server = append(server, d.skew(ctx, env))
	}
	return append(checks, server...)
}

// skew compares this machine's clock with the Date header of an answer. The request's own duration
// is allowed for, and so is the header's resolution of one second.
func (d *doctorRun) skew(ctx context.Context, env *clusterEnv) verdict.Check {
	const name = "clock"
	expected := fmt.Sprintf("at most %s from the API server's", skewLimit)
	sent := d.now()
	date, err := serverDate(ctx, env.config)
	received := d.now()
	if err != nil {
		return undecided(name, expected, err)
	}
	off := time.Duration(0)
	if early := sent.Sub(date.Add(time.Second)); early > 0 {
		off = early
	} else if late := date.Sub(received); late > 0 {
		off = -late
	}
	return verdict.If(off.Abs() <= skewLimit, name, expected, fmt.Sprintf("%s off", off.Abs().Round(100*time.Millisecond)), "set this machine's clock, or the node's")
}

func serverDate(ctx context.Context, config *rest.Config) (date time.Time, err error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, dateLimit)
	defer cancel()
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return time.Time{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), nil)
	if err != nil {
		return time.Time{}, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	_, readErr := io.Copy(io.Discard, answer.Body)
	if err := errors.Join(readErr, answer.Body.Close()); err != nil && !errors.Is(err, fs.ErrClosed) {
		return time.Time{}, err
	}
	date, err = http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("expected a Date header, saw %q: %w", answer.Header.Get("Date"), err)
	}
	return date, nil
}
