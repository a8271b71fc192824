package drill

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

func TestComputeBudget(t *testing.T) {
	stock := Probes{Liveness: &Probe{30, 5, 2}, Readiness: &Probe{10, 5, 6}}
	for name, c := range map[string]struct {
		probes  Probes
		seconds int
		want    Budget
	}{
		"stock Kyverno": {stock, 20, Budget{LivenessFailures: 1, ReadinessFailures: 3, SpacingSeconds: 60}},
		"P-17 5 × 3": {Probes{Liveness: &Probe{5, 1, 3}}, 20,
			Budget{LivenessFailures: 5, RestartPossible: true, SpacingSeconds: 10}},
		"P-17 cut to what is allowed": {Probes{Liveness: &Probe{5, 1, 3}}, 8, Budget{LivenessFailures: 2, SpacingSeconds: 10}},
		"one period and a timeout":    {Probes{Liveness: &Probe{25, 5, 2}}, 20, Budget{LivenessFailures: 2, RestartPossible: true, SpacingSeconds: 50}},
		"just longer":                 {Probes{Liveness: &Probe{26, 5, 2}}, 20, Budget{LivenessFailures: 1, SpacingSeconds: 52}},
		"threshold 1":                 {Probes{Liveness: &Probe{600, 5, 1}}, 20, Budget{LivenessFailures: 1, RestartPossible: true, SpacingSeconds: 1200}},
		"readiness leaves":            {Probes{Readiness: &Probe{10, 1, 3}}, 20, Budget{ReadinessFailures: 3, LeavesEndpoints: true}},
		"no probes":                   {Probes{}, 20, Budget{}},
		"probes without numbers":      {Probes{Liveness: &Probe{}, Readiness: &Probe{10, 5, 0}}, 20, Budget{RestartPossible: true, LeavesEndpoints: true}},
		"negative period":             {Probes{Liveness: &Probe{-30, 5, 2}}, 20, Budget{RestartPossible: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.FreezeSeconds, c.want.Probes = c.seconds, c.probes
			if diff := cmp.Diff(c.want, ComputeBudget(c.probes, c.seconds)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	four := refFacts()[3].(Act4Facts)
	look := func(spoil func(*Act4Facts)) []string {
		f := four
		spoil(&f)
		return failing(Preflight(Freeze(), f.Backend, f.Budget, f.AlsoAffected))
	}
	hook := func(target, helper bool, policy string) func(*Act4Facts) {
		return func(f *Act4Facts) {
			f.AlsoAffected = []Hook{{Webhook: "w", FailurePolicy: policy, CoversTargetPods: target, CoversHelperPods: helper}}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*Act4Facts)
		want  []string
	}{
		"stock Kyverno": {func(*Act4Facts) {}, nil},
		"K-07 two replicas": {func(f *Act4Facts) {
			f.Backend.Replicas, f.Backend.StatusReplicas, f.Backend.UpdatedReplicas, f.Backend.ReadyEndpoints = 2, 2, 2, 2
		}, []string{"ready endpoints", "replicas", "replicas in status", "updated replicas"}},
		"K-01 scaled to zero":     {func(f *Act4Facts) { f.Backend = Backend{} }, []string{"backend identity", "ready endpoints", "replicas", "replicas in status", "updated replicas"}},
		"rolling":                 {func(f *Act4Facts) { f.Backend.UpdatedReplicas = 0 }, []string{"updated replicas"}},
		"P-17 restarts":           {func(f *Act4Facts) { f.Budget = ComputeBudget(Probes{Liveness: &Probe{5, 5, 3}}, 20) }, []string{"liveness budget"}},
		"leaves the endpoints":    {func(f *Act4Facts) { f.Budget = ComputeBudget(Probes{Readiness: &Probe{5, 5, 3}}, 20) }, []string{"readiness budget"}},
		"no budget":               {func(f *Act4Facts) { f.Budget = Budget{} }, []string{"budget"}},
		"hook on the target":      {hook(true, false, "Fail"), []string{"other hooks on kca-webhook-target"}},
		"hook on the helper":      {hook(false, true, "Fail"), []string{"other hooks on kube-lab-system"}},
		"a hook that fails open":  {hook(true, true, "Ignore"), []string{"other hooks on kca-webhook-target"}},
		"one on the helper alone": {hook(false, true, "Ignore"), nil},
		"a hook on the control": {func(f *Act4Facts) {
			f.AlsoAffected = []Hook{{Webhook: "w", FailurePolicy: "Ignore", CoversControlPods: true}}
		}, []string{"other hooks on kca-webhook-control"}},
		"a hook of unknown policy":        {hook(true, true, ""), []string{"other hooks on kca-webhook-target", "other hooks on kube-lab-system"}},
		"container of another Pod":        {func(f *Act4Facts) { f.Backend.Container.PodUID = "x" }, []string{"backend identity"}},
		"container id without its prefix": {func(f *Act4Facts) { f.Backend.Container.ID = targetContainer }, []string{"backend identity"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, look(c.spoil)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if verdict.Fold(Preflight(Freeze(), Backend{}, Budget{}, nil)) == verdict.Pass {
		t.Error("nothing at all may be frozen")
	}
}

func TestJudgesPassNothingThatIsEmpty(t *testing.T) {
	l := Freeze()
	for name, checks := range map[string][]verdict.Check{
		"act 1": JudgeAct1(l, Act1Facts{}),
		"act 2": JudgeAct2(l, Act2Facts{}),
		"act 3": JudgeAct3(l, Act3Facts{}, Act2Facts{}),
		"act 4": JudgeAct4(l, Act4Facts{}, Act1Facts{}, Act2Facts{}),
		"act 5": JudgeAct5(l, Act5Facts{}, Act2Facts{}, Act3Facts{}, Act4Facts{}),
		"act 6": JudgeAct6(l, Act6Facts{}, Act2Facts{}, Act3Facts{}, Act4Facts{}, Act5Facts{}),
		"act 7": JudgeAct7(l, Act7Facts{}, Act2Facts{}, Act3Facts{}, Act5Facts{}, Act6Facts{}),
		"act 8": JudgeAct8(l, Act8Facts{}),
	} {
		if got := verdict.Fold(checks); got != verdict.Fail {
			t.Errorf("%s with no facts is %s", name, got)
		}
	}
}
