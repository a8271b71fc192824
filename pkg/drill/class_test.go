package drill

import (
	"strings"
	"testing"
)

const (
	failHook   = "vpol.validate.kyverno.svc-fail-finegrained-kca-webhook-label"
	calling    = `Internal error occurred: failed calling webhook "` + failHook + `": `
	posting    = calling + `failed to call webhook: Post "https://kyverno-svc.kyverno.svc:443/vpol/kca-webhook-label?timeout=3s": `
	denied     = `admission webhook "` + failHook + `" denied the request`
	ruleSpoken = denied + ": Policy kca-webhook-label failed: KCA_ENVIRONMENT_REQUIRED"
)

func expectedHook() Expected {
	l := Freeze()
	return Expected{Webhook: failHook, Policy: l.Policy, DenyMessage: l.DenyMessage, TimeoutSeconds: HookTimeoutSeconds}
}

func status(code int, reason, message string) Answer {
	return Answer{HasStatus: true, Code: code, Reason: reason, Message: message, LatencyUS: 10_000}
}

func internal(message string) Answer { return status(500, "InternalError", message) }

func TestClassify(t *testing.T) {
	for name, c := range map[string]struct {
		answer Answer
		want   Class
	}{
		"nothing at all came back": {Answer{}, ClientError},
		"W-13 the client's own limiter": {
			Answer{ClientErr: "client rate limiter Wait returned an error: context deadline exceeded"}, ClientError},
		"the client gave up, in the server's words": {Answer{ClientErr: posting + "context deadline exceeded"}, ClientError},
		"client error beside a status":              {Answer{ClientErr: "EOF", HasStatus: true, Code: 500, Message: posting + "context deadline exceeded"}, ClientError},
		"a status and an object at once":            {Answer{HasStatus: true, Allowed: true, Code: 201}, Unrelated},

		"W-03 the whole request ran out of time": {
			status(504, "Timeout", "Timeout: request did not complete within requested timeout - context deadline exceeded"), APIServerTimeout},
		"W-03 allotted timeout, no code":     {status(0, "", "Timeout: request did not complete within the allotted timeout"), APIServerTimeout},
		"504 from a proxy":                   {status(504, "", "gateway timeout"), APIServerTimeout},
		"a denial with 504 is still denied":  {status(504, "Timeout", ruleSpoken), ExplicitDeny},
		"a name inside does not name a hook": {status(504, "Timeout", "Timeout: x "+posting), APIServerTimeout},

		"the drill's freeze": {internal(posting + "context deadline exceeded"), CallTimeout},
		"W-01 older server, other path and number": {
			internal(calling + `Post "https://kyverno-svc.kyverno.svc:443/validate?timeout=10s": context deadline exceeded`), CallTimeout},
		"W-01 older still, without quotes": {
			internal(calling + `Post https://kyverno-svc.kyverno.svc:443/validate?timeout=10s: context deadline exceeded`), CallTimeout},
		"no URL":                {internal(calling + "context deadline exceeded"), CallTimeout},
		"W-05 Client.Timeout":   {internal(posting + "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"), CallTimeout},
		"request canceled":      {internal(posting + "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"), CallTimeout},
		"waiting for a conn":    {internal(posting + "net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)"), CallTimeout},
		"TLS handshake":         {internal(posting + "net/http: TLS handshake timeout"), CallTimeout},
		"dial timeout":          {internal(posting + "dial tcp 10.0.0.1:9443: i/o timeout"), CallTimeout},
		"500 without a reason":  {status(500, "", posting+"context deadline exceeded"), CallTimeout},
		"reason without a code": {status(0, "InternalError", posting+"context deadline exceeded"), CallTimeout},

		"W-07 refused":              {internal(posting + "dial tcp 10.0.0.1:9443: connect: connection refused"), CallError},
		"W-09 no service":           {internal(posting + `service "kyverno-svc" not found`), CallError},
		"no endpoints":              {internal(posting + `no endpoints available for service "kyverno-svc"`), CallError},
		"certificate":               {internal(posting + "x509: certificate signed by unknown authority"), CallError},
		"end of file":               {internal(posting + "EOF"), CallError},
		"reset":                     {internal(posting + "read tcp 10.0.0.2:1->10.0.0.1:9443: read: connection reset by peer"), CallError},
		"name look-up ran out":      {internal(posting + "dial tcp: lookup kyverno-svc.kyverno.svc: i/o timeout"), CallError},
		"no details":                {internal(`Internal error occurred: failed calling webhook "` + failHook + `"; no further details available`), CallError},
		"a body that speaks of one": {internal(calling + `failed to call webhook: an error on the server ("context deadline exceeded") has prevented the request from succeeding`), CallError},
		"a body that ends like one": {internal(calling + `failed to call webhook: an error on the server (": context deadline exceeded`), CallError},
		"W-15 Kyverno's own hook":   {internal(strings.Replace(posting, failHook, "kyverno-verify.kyverno.svc", 1) + "context deadline exceeded"), OtherHook},
		"the ignore entry's name":   {internal(strings.Replace(posting, "svc-fail-", "svc-ignore-", 1) + "context deadline exceeded"), OtherHook},
		"a longer name":             {internal(strings.Replace(posting, failHook, failHook+"-2", 1) + "context deadline exceeded"), OtherHook},
		"call text with 403":        {status(403, "Forbidden", posting+"context deadline exceeded"), Unrelated},
		"call text without quotes":  {internal(strings.ReplaceAll(posting, `"`, "") + "context deadline exceeded"), Unrelated},
		"call text without prefix":  {internal(strings.TrimPrefix(posting, "Internal error occurred: ") + "context deadline exceeded"), Unrelated},

		"the rule fired":               {status(400, "", ruleSpoken), ExplicitDeny},
		"W-11 with 500":                {status(500, "", ruleSpoken), ExplicitDeny},
		"W-11 with 500 and a reason":   {internal(ruleSpoken), ExplicitDeny},
		"W-11 with 403":                {status(403, "Forbidden", ruleSpoken), ExplicitDeny},
		"W-11 with 422":                {status(422, "Invalid", ruleSpoken), ExplicitDeny},
		"joined with another policy":   {status(400, "", ruleSpoken+"; Policy z failed: no"), ExplicitDeny},
		"evaluation failed":            {status(400, "", denied+": Policy kca-webhook-label error: no such key"), DenyByError},
		"our policy, another message":  {status(400, "", denied+": Policy kca-webhook-label failed: something"), DenyUnknown},
		"our message and more of it":   {status(400, "", ruleSpoken+"_TOO"), DenyUnknown},
		"a longer policy name":         {status(400, "", denied+": Policy kca-webhook-label-2 failed: KCA_ENVIRONMENT_REQUIRED"), DenyUnknown},
		"without explanation":          {status(400, "", denied+" without explanation"), DenyUnknown},
		"another policy quotes ours":   {status(400, "", denied+": Policy z failed: Policy kca-webhook-label failed: KCA_ENVIRONMENT_REQUIRED"), DenyUnknown},
		"another hook in our words":    {status(400, "", strings.Replace(ruleSpoken, failHook, "x.example.com", 1)), OtherHook},
		"a policy speaks of time-outs": {status(400, "", denied+": Policy kca-webhook-label failed: context deadline exceeded"), DenyUnknown},
		"a policy speaks of calls":     {internal(denied + ": Policy kca-webhook-label failed: " + posting + "context deadline exceeded"), DenyUnknown},
		"a quoted quote in the name":   {status(400, "", `admission webhook "a\"b" denied the request: x`), OtherHook},

		"dry run": {status(400, "BadRequest", `admission webhook "`+failHook+`" does not support dry run`), SetupError},

		"service account":  {status(403, "Forbidden", `pods "x" is forbidden: error looking up service account a/default: serviceaccount "default" not found`), Unrelated},
		"matchCondition":   {status(403, "Forbidden", `pods "x" is forbidden: failed calling webhook "`+failHook+`": matchCondition error`), Unrelated},
		"pod security":     {status(403, "Forbidden", `pods "x" is forbidden: violates PodSecurity "restricted:latest"`), Unrelated},
		"missing":          {status(404, "NotFound", `namespaces "x" not found`), Unrelated},
		"there already":    {status(409, "AlreadyExists", `pods "x" already exists`), Unrelated},
		"VAP":              {status(422, "Invalid", `pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`), Unrelated},
		"bare 500":         {status(500, "InternalError", "Internal error occurred: etcdserver: request timed out"), Unrelated},
		"bare 400":         {status(400, "", "bad"), Unrelated},
		"bare words":       {internal("context deadline exceeded"), Unrelated},
		"a name that lies": {status(409, "AlreadyExists", `pods "x" already exists: `+posting+"context deadline exceeded"), Unrelated},

		"fast":           {Answer{Allowed: true, Code: 201, LatencyUS: 11_000}, AllowedFast},
		"just fast":      {Answer{Allowed: true, LatencyUS: 999_999}, AllowedFast},
		"not fast":       {Answer{Allowed: true, LatencyUS: 1_000_000}, AllowedOdd},
		"nearly slow":    {Answer{Allowed: true, LatencyUS: 2_799_999}, AllowedOdd},
		"just slow":      {Answer{Allowed: true, LatencyUS: 2_800_000}, AllowedSlow},
		"as measured":    {Answer{Allowed: true, LatencyUS: 3_020_000}, AllowedSlow},
		"still slow":     {Answer{Allowed: true, LatencyUS: 5_000_000}, AllowedSlow},
		"too slow":       {Answer{Allowed: true, LatencyUS: 5_000_001}, AllowedOdd},
		"time backwards": {Answer{Allowed: true, LatencyUS: -1}, AllowedOdd},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Classify(c.answer, expectedHook()); got != c.want {
				t.Errorf("Classify(%+v) = %s, want %s", c.answer, got, c.want)
			}
		})
	}
}

// TestClassifyW11 uses the field case's own words: another policy, another message, code 500.
func TestClassifyW11(t *testing.T) {
	hook := Expected{Webhook: "ours", Policy: "p", DenyMessage: "no", TimeoutSeconds: 3}
	if got := Classify(status(500, "", `admission webhook "ours" denied the request: Policy p failed: no`), hook); got != ExplicitDeny {
		t.Errorf("got %s, want %s", got, ExplicitDeny)
	}
}

func TestClassifyProvesNothingWithoutAnExpectation(t *testing.T) {
	for _, a := range []Answer{
		internal(`Internal error occurred: failed calling webhook "": context deadline exceeded`),
		status(400, "", `admission webhook "" denied the request: Policy  failed: `),
		{Allowed: true, LatencyUS: 3_000_000},
	} {
		switch got := Classify(a, Expected{}); got {
		case CallTimeout, ExplicitDeny, AllowedSlow:
			t.Errorf("Classify(%+v, nothing expected) = %s", a, got)
		}
	}
}

func TestCallFault(t *testing.T) {
	for message, want := range map[string]Fault{
		posting + "dial tcp 10.0.0.1:9443: connect: connection refused":              FaultRefused,   // W-07
		posting + `service "kyverno-svc" not found`:                                  FaultNoService, // W-09
		calling + `failed to call webhook: service "kyverno-svc" not found`:          FaultNoService,
		posting + `no endpoints available for service "kyverno-svc"`:                 FaultNoEndpoint,
		posting + "tls: failed to verify certificate: x509: certificate has expired": FaultCertificate,
		posting + "EOF": FaultConnection,
		posting + "the server could not find the requested resource":                      FaultAnswer,
		calling + "failed to call webhook: received invalid webhook response: expected x": FaultAnswer,
		posting + "something new":             FaultOther,
		posting + "context deadline exceeded": "",
		ruleSpoken:                            "",
		"":                                    "",
	} {
		got, hint := CallFault(message)
		if got != want {
			t.Errorf("CallFault(%q) = %q, want %q", message, got, want)
		}
		if (hint == "") != (want == "") {
			t.Errorf("CallFault(%q): hint %q for fault %q", message, hint, got)
		}
	}
}

func TestHookNamed(t *testing.T) {
	for message, want := range map[string]string{
		posting + "x": failHook,
		ruleSpoken:    failHook,
		`admission webhook "a.example.com" does not support dry run`: "a.example.com",
		`pods "x" is forbidden: admission webhook "a" denied`:        "",
		`admission webhook "a`:                   "",
		`admission webhook a denied the request`: "",
		"":                                       "",
	} {
		if got := HookNamed(message); got != want {
			t.Errorf("HookNamed(%q) = %q, want %q", message, got, want)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, message := range []string{posting + "context deadline exceeded", ruleSpoken, calling, denied, `admission webhook "\`, ""} {
		f.Add(message, "InternalError", 500, int64(3_000_000), true, false)
	}
	f.Fuzz(func(t *testing.T, message, reason string, code int, latency int64, hasStatus, allowed bool) {
		a := Answer{HasStatus: hasStatus, Code: code, Reason: reason, Message: message, Allowed: allowed, LatencyUS: latency}
		got := Classify(a, expectedHook())
		CallFault(message)
		if got == CallTimeout && !strings.HasPrefix(message, calling) {
			t.Errorf("call-timeout for a message that the server did not begin: %q", message)
		}
		if got == ExplicitDeny && !strings.HasPrefix(message, ruleSpoken) {
			t.Errorf("explicit-deny for a message that does not begin with our rule: %q", message)
		}
		if strings.HasPrefix(string(got), "allowed-") && (hasStatus || !allowed) {
			t.Errorf("%s for %+v", got, a)
		}
	})
}
