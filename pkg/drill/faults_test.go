package drill

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// setIn replaces one value of a JSON object by its path of keys and indices.
func setIn(t *testing.T, root any, value any, keys ...any) {
	t.Helper()
	for _, key := range keys[:len(keys)-1] {
		root = childOf(t, root, key)
	}
	switch last := keys[len(keys)-1].(type) {
	case string:
		node, ok := root.(map[string]any)
		if _, there := node[last]; !ok || !there {
			t.Fatalf("no %v", keys)
		}
		node[last] = value
	case int:
		root.([]any)[last] = value
	}
}

func childOf(t *testing.T, node, key any) any {
	t.Helper()
	switch k := key.(type) {
	case string:
		if v, ok := node.(map[string]any)[k]; ok {
			return v
		}
	case int:
		if list, ok := node.([]any); ok && k < len(list) {
			return list[k]
		}
	}
	t.Fatalf("no %v", key)
	return nil
}

// fault is one lie in the facts of a step, with all later links rebuilt, and the check that names it.
type fault struct {
	step  int
	value any
	keys  []any
	check string
}

func TestGradeNamesTheFault(t *testing.T) {
	at := func(keys ...any) []any { return keys }
	const otherUID = "dddddddd-dddd-4ddd-8ddd-dddddddddddd"
	faults := map[string]fault{
		"other target":               {1, "default", at("scope", "target"), "/target"},
		"node not the inspected one": {1, otherUID, at("vm", "node_uid"), "node UID"},
		"control UID of another":     {1, otherUID, at("inspection", "namespaces", "kca-webhook-control"), "/namespaces/kca-webhook-control"},
		"one namespace twice":        {1, targetUID, at("inspection", "namespaces", "kca-webhook-control"), "inspected namespaces"},

		"policy audits only":               {2, []any{"Audit"}, at("policy", "spec", "validationActions"), "policy"},
		"policy with another rule":         {2, "true", at("policy", "spec", "validations", 0, "expression"), "policy"},
		"K-11 time-out not taken over":     {2, 10, at("webhook", "timeout_seconds"), "timeout"},
		"K-03 another configuration":       {2, "kyverno-cleanup-validating-webhook-cfg", at("webhook", "configuration"), "configuration"},
		"forced to Ignore":                 {2, "Ignore", at("webhook", "failure_policy"), "failure policy"},
		"the merged webhook":               {2, "vpol.validate.kyverno.svc-fail", at("webhook", "webhook"), "webhook"},
		"K-23 no rules":                    {2, []any{}, at("webhook", "rules"), "rule"},
		"selects control":                  {2, true, at("webhook", "selects_control"), "selector and control"},
		"selects not the target":           {2, false, at("webhook", "selects_target"), "selector"},
		"no CA bundle":                     {2, "", at("webhook", "ca_bundle_sha256"), "CA bundle"},
		"with match conditions":            {2, 1, at("webhook", "match_conditions"), "match conditions"},
		"K-15 canary allowed":              {2, refStored("canary", "kca-02-canary-b", "", 1_300_000, 9_000), at("canary", 1), "canary 2: class"},
		"canary was real":                  {2, false, at("canary", 0, "dry_run"), "canary 1: request"},
		"two canaries":                     {2, []any{refDenied("canary", "a", "Fail", 1_000_000), refDenied("canary", "b", "Fail", 1_300_000)}, at("canary"), "canary: in a row"},
		"canary sent before the last came": {2, refDenied("canary", "kca-02-canary-b", "Fail", 1_001_000), at("canary", 1), "canary 2: order"},
		"one name for two":                 {2, refDenied("canary", "kca-02-canary-a", "Fail", 1_300_000), at("canary", 1), "request names"},
		"too slow":                         {2, 60_001, at("registration_ms"), "registration time"},

		"good not stored":                  {3, "no", at("good", "stored", "state"), "good: stored"},
		"good stored under another UID":    {3, otherUID, at("good", "stored", "uid"), "good: stored"},
		"good was slow":                    {3, refStored("good", "kca-03-good-a", existingUID, 100_000, 3_020_000), at("good"), "good: class"},
		"bad stored":                       {3, refStored("bad", "kca-03-bad-a", otherUID, 150_000, 9_000), at("bad"), "bad: class"},
		"bad stored in spite of a deny":    {3, map[string]any{"state": "yes", "uid": otherUID}, at("bad", "stored"), "bad: stored"},
		"bad stored or not":                {3, "unknown", at("bad", "stored", "state"), "bad: stored"},
		"bad timed out without a freeze":   {3, refTimedOut("bad", "kca-03-bad-a", 150_000), at("bad"), "bad: class"},
		"denied by another hook":           {3, strings.Replace(ruleSpoken, failHook, "x.example.com", 1), at("bad", "message"), "bad: class"},
		"denied by an error of the policy": {3, denied + ": Policy kca-webhook-label error: no such key", at("bad", "message"), "bad: class"},
		"class and message differ":         {3, "call-timeout", at("bad", "class"), "bad: class"},
		"unlabelled good":                  {3, map[string]any{}, at("good", "labels"), "good: request"},
		"labelled bad":                     {3, map[string]any{"environment": ""}, at("bad", "labels"), "bad: request"},
		"dry run":                          {3, true, at("good", "dry_run"), "good: request"},
		"in another namespace":             {3, "kca-webhook-control", at("bad", "namespace"), "bad: request"},
		"latency of another request":       {3, 400_000, at("good", "latency_us"), "good: request"},
		"name of a canary":                 {3, "kca-02-canary-a", at("bad", "name"), "request names"},
		"existing is pending":              {3, "Pending", at("existing", "phase"), "existing: phase"},
		"existing is another Pod":          {3, otherUID, at("existing", "uid"), "existing: UID"},
		"existing without container":       {3, "", at("existing", "container_id"), "existing: container id"},

		"a signal was sent":           {4, true, at("signal_sent"), "signal"},
		"it could have signalled":     {4, "0000000000000020", at("capabilities"), "capabilities"},
		"already stopped":             {4, "T", at("target_state"), "target state"},
		"the pause process":           {4, 1, at("target", "pid"), "target"},
		"P-13 start time not a tick":  {4, "12.5", at("target", "start_ticks"), "target"},
		"process of another Pod":      {4, otherUID, at("target", "pod_uid"), "target"},
		"process of another node":     {4, otherUID, at("target", "boot_id"), "target"},
		"another Deployment":          {4, otherUID, at("deployment", "uid"), "deployment"},
		"K-07 two endpoints":          {4, 2, at("backend", "ready_endpoints"), "ready endpoints"},
		"K-01 scaled to zero":         {4, 0, at("backend", "replicas"), "replicas"},
		"rolling":                     {4, 2, at("backend", "status_replicas"), "replicas in status"},
		"P-17 probes restart it":      {4, map[string]any{"period_seconds": 5, "timeout_seconds": 5, "failure_threshold": 3}, at("backend", "probes", "liveness"), "budget"},
		"budget for a shorter freeze": {4, 10, at("budget", "freeze_seconds"), "budget"},
		"another hook on the target":  {4, true, at("also_affected", 0, "covers_target_pods"), "other hooks on kca-webhook-target"},
		"another hook on the helper":  {4, true, at("also_affected", 0, "covers_helper_pods"), "other hooks on kube-lab-system"},
		"plan with another action":    {4, "scale-down", at("plan", "action"), "plan"},
		"plan for a longer freeze":    {4, 21, at("plan", "resume_after_sec"), "plan"},
		"registration of another day": {4, otherUID, at("registration", "configuration_uid"), "registration: as in act 2"},
	}
	maps.Copy(faults, freezeFaults(at))
	m := reference(t).material(t)
	earlier := map[int]*grader{}
	for step := 1; step <= Acts; step++ {
		earlier[step] = loaded(t, m, step-1)
	}
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := object(t, m.Files[EvidenceFile(c.step)].Data)
			setIn(t, record["facts"], jsonValue(t, c.value), c.keys...)
			names := failing(earlier[c.step].gradeLast(m, c.step, text(t, record)))
			if !slices.Contains(names, c.check) {
				t.Errorf("failing checks are %q, want %q among them", names, c.check)
			}
		})
	}
}

// freezeFaults are those of acts 5 to 8.
func freezeFaults(at func(...any) []any) map[string]fault {
	const otherUID = "dddddddd-dddd-4ddd-8ddd-dddddddddddd"
	row := refDenials(5, "after", "Fail", 84_000_000)
	return map[string]fault{
		"registration gone meanwhile (K-05)": {5, "", at("registration", "during", "webhook"), "registration during: effective"},
		"registration changed meanwhile":     {5, otherUID, at("registration", "during", "configuration_uid"), "registration during: unchanged"},
		"registration changed after":         {5, strings.Repeat("00", 32), at("registration", "after", "ca_bundle_sha256"), "registration after: unchanged"},
		"registration read too early":        {5, 3_000_000, at("registration", "during", "read_us"), "registration during: read"},
		"registration read too late":         {5, 23_002_000, at("registration", "during", "read_us"), "registration during: read"},
		"not the surveyed process (P-13)":    {5, "123457", at("freeze", "identity", "start_ticks"), "freeze: identity"},
		"another pid":                        {5, 4243, at("freeze", "identity", "pid"), "freeze: identity"},
		"too short":                          {5, 19_499, at("freeze", "frozen_ms"), "freeze: length"},
		"too long":                           {5, 20_501, at("freeze", "frozen_ms"), "freeze: length"},
		"times that do not add up":           {5, 23_500_000, at("freeze", "resumed_at"), "freeze: resumed at"},
		"resumed by the watchdog":            {5, "watchdog", at("freeze", "resumed_by"), "freeze: resumed by"},
		"resumed by a foreign hand":          {5, "foreign", at("freeze", "resumed_by"), "freeze: resumed by"},
		"resume was asked for":               {5, 20_000_000, at("freeze", "resume_asked_us"), "freeze: resume asked"},
		"no watchdog":                        {5, false, at("freeze", "watchdog_ready"), "freeze: watchdog"},
		"more rights than needed":            {5, "000001ffffffffff", at("freeze", "capabilities"), "freeze: capabilities"},
		"never seen stopped (P-11)":          {5, []any{map[string]any{"at_us": 23_050_000, "state": "S"}}, at("freeze", "states"), "freeze: states in the window"},
		"ran in the middle":                  {5, "R", at("freeze", "states", 2, "state"), "freeze: states in the window"},
		"not seen running again":             {5, "T", at("freeze", "states", 3, "state"), "freeze: state after the resume"},
		"ended instead of resumed":           {5, "Z", at("freeze", "states", 3, "state"), "freeze: state after the resume"},

		"good was allowed":                {5, refStored("good", "kca-05-good-a", otherUID, 3_100_000, 9_000), at("during", "good"), "during good: class"},
		"bad was denied":                  {5, refDenied("bad", "kca-05-bad-a", "Fail", 3_101_000), at("during", "bad"), "during bad: class"},
		"bad was stored after all":        {5, map[string]any{"state": "yes", "uid": otherUID}, at("during", "bad", "stored"), "during bad: stored"},
		"W-03 the API server gave up":     {5, "Timeout: request did not complete within requested timeout - context deadline exceeded", at("during", "bad", "message"), "during bad: class"},
		"W-07 refused":                    {5, posting + "dial tcp 10.0.0.1:9443: connect: connection refused", at("during", "bad", "message"), "during bad: class"},
		"W-15 another hook timed out":     {5, strings.Replace(posting, failHook, "kyverno-verify.kyverno.svc", 1) + "context deadline exceeded", at("during", "bad", "message"), "during bad: class"},
		"no answer":                       {5, nil, at("during", "bad", "http_code"), "during bad: class"},
		"control not stored":              {5, "no", at("during", "control", "stored", "state"), "during control: stored"},
		"control waited":                  {5, refStored("control", "kca-05-control-a", otherUID, 3_102_000, 3_020_000), at("during", "control"), "during control: class"},
		"control in the target namespace": {5, "kca-webhook-target", at("during", "control", "namespace"), "during control: request"},
		"sent before the stop":            {5, refTimedOut("bad", "kca-05-bad-a", 3_039_000), at("during", "bad"), "during bad: sent"},
		"answered after the resume":       {5, refTimedOut("bad", "kca-05-bad-a", 20_000_000), at("during", "bad"), "during bad: answered"},
		"not at the same time":            {5, refTimedOut("bad", "kca-05-bad-a", 3_351_000), at("during", "bad"), "during: at the same time"},
		"one of them was the canary":      {5, true, at("during", "bad", "dry_run"), "during bad: request"},

		"only two denials after":     {5, row.All[:2], at("after", "all"), "after: in a row"},
		"too late":                   {5, row, at("after"), "after: time"},
		"denied before it ran":       {5, refDenials(5, "after", "Fail", 22_000_000), at("after"), "after: time"},
		"bad is not of the row":      {5, refDenied("bad", "kca-05-after-x", "Fail", 23_200_000), at("after", "bad"), "after: bad"},
		"existing was replaced":      {5, otherUID, at("existing", "uid"), "existing: UID"},
		"existing was restarted":     {5, 1, at("existing", "restart_count"), "existing: restart count"},
		"existing is terminating":    {5, "Terminating", at("existing", "phase"), "existing: phase"},
		"existing read too early":    {5, 38_049_999, at("existing", "read_us"), "existing: read"},
		"container restarted":        {5, 1, at("container", "after", "restart_count"), "container after: restart count"},
		"another container after":    {5, "containerd://" + strings.Repeat("12", 32), at("container", "after", "id"), "container after: id"},
		"no time to settle":          {5, 38_049_999, at("container", "after", "read_us"), "container after: read"},
		"the leader changed":         {5, "another", at("container", "after", "lease_holder"), "lease holder"},
		"the leader is not known":    {5, "", at("container", "after", "lease_holder"), "lease holder"},
		"K-09 nothing was counted":   {5, map[string]any{}, at("witness", "after"), "API server counters"},
		"a counter read only before": {5, map[string]any{"available": true, "why": "timed out", "before": map[string]any{}, "after": map[string]any{}}, at("witness"), "API server counters"},
		"a witness taken back":       {5, map[string]any{"available": false, "why": "timed out", "before": map[string]any{"x{}": 1}, "after": map[string]any{}}, at("witness"), "API server counters"},
		"no reason for no witness":   {5, map[string]any{"available": false, "why": "", "before": map[string]any{}, "after": map[string]any{}}, at("witness"), "API server counters"},

		"another policy":               {6, otherUID, at("policy", "metadata", "uid"), "policy: same UID"},
		"the policy still fails":       {6, "Fail", at("policy", "spec", "failurePolicy"), "policy"},
		"not denied before":            {6, refStored("bad", "kca-06-before-0", otherUID, 2_200_000, 9_000), at("before", "all", 0), "before 1: class"},
		"denied before, but earlier":   {6, refDenials(6, "before", "Ignore", 1_000_000), at("before"), "before: time"},
		"bad was denied when frozen":   {6, refDenied("bad", "kca-06-bad-a", "Ignore", 5_101_000), at("during", "bad"), "during bad: class"},
		"bad came back at once":        {6, refStored("bad", "kca-06-bad-a", otherUID, 5_101_000, 9_000), at("during", "bad"), "during bad: class"},
		"bad came back half-way":       {6, "allowed-odd", at("during", "bad", "class"), "during bad: class"},
		"answered after the command":   {6, 8_100_000, at("freeze", "resume_asked_us"), "during good: answered"},
		"resumed by the timer":         {6, "timer", at("freeze", "resumed_by"), "freeze: resumed by"},
		"nobody asked for the resume":  {6, nil, at("freeze", "resume_asked_us"), "freeze: resume asked"},
		"as long as the cap":           {6, 20_000, at("freeze", "frozen_ms"), "freeze: length"},
		"allowed after":                {6, refStored("bad", "kca-06-after-0", otherUID, 8_500_000, 9_000), at("after", "all", 0), "after 1: class"},
		"a name of act 5":              {6, "kca-05-bad-a", at("during", "bad", "name"), "request names"},
		"control under good's UID":     {6, existingUID, at("during", "control", "stored", "uid"), "during control: stored"},
		"it never failed open":         {6, map[string]any{}, at("witness", "after"), "API server counters"},
		"the counters went backwards":  {6, map[string]any{`apiserver_admission_webhook_fail_open_count{name="vpol.validate.kyverno.svc-ignore-finegrained-kca-webhook-label"}`: 9}, at("witness", "before"), "API server counters"},
		"the container was restarted":  {6, 1, at("container", "before", "restart_count"), "container before: restart count"},
		"the registration still fails": {6, failHook, at("registration", "before", "webhook"), "registration before: effective"},

		"bad was stored":             {7, refStored("bad", "kca-07-bad-a", otherUID, 100_000, 9_000), at("bad"), "bad: class"},
		"a name used in act 5":       {7, "kca-05-after-1", at("bad", "name"), "request names"},
		"a name used in act 2":       {7, "kca-02-canary-a", at("bad", "name"), "request names"},
		"the policy was replaced":    {7, otherUID, at("policy", "uid"), "policy: same UID"},
		"the policy fails again":     {7, "Fail", at("policy", "failure_policy"), "policy: failure policy"},
		"another registration":       {7, otherUID, at("registration", "configuration_uid"), "registration: as in act 6"},
		"the baseline Pod is gone":   {7, "Failed", at("existing", "phase"), "existing: phase"},
		"another word in the copy":   {7, "Fail", at("recovery", "mode"), "recovery"},
		"a link to other evidence":   {8, strings.Repeat("0", 64), at("links", "05.json"), "link to 05.json in the facts"},
		"one link too many":          {8, map[string]any{"05.json": "", "06.json": "", "07.json": "", "08.json": ""}, at("links"), "links"},
		"another conclusion":         {8, "bad-requests-time-out", at("report", "fail"), "/fail"},
		"a conclusion left out":      {8, "", at("report", "control"), "/control"},
		"a digest that is not one":   {8, "06.json", at("report", "ignore_evidence_sha256"), "/ignore_evidence_sha256"},
		"the copy differs from file": {8, strings.Repeat("0", 64), at("report", "recovery_evidence_sha256"), "report.json in the facts"},
	}
}

// jsonValue is a Go value as a test reads it back from JSON.
func jsonValue(t *testing.T, v any) any {
	t.Helper()
	return object(t, text(t, map[string]any{"v": v}))["v"]
}

func TestGradeDoesNotFailForAWitnessThatMayNotBeRead(t *testing.T) {
	lab := reference(t)
	for _, act := range []int{5, 6} {
		setIn(t, lab.facts(act), map[string]any{"available": false, "why": "forbidden", "before": map[string]any{}, "after": map[string]any{}}, "witness")
	}
	lab.rebuild(t, 1)
	for _, step := range []int{5, 6} {
		if checks := Grade(lab.material(t), step); verdict.Fold(checks) != verdict.Pass {
			t.Errorf("step %d: %q", step, failing(checks))
		}
	}
}
