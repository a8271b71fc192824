package drill

import (
	"strconv"
	"strings"
)

// The HTTP codes that the rules know by name. Not net/http's: rules link no network code.
const (
	statusOK              = 200
	statusMultipleChoices = 300
	statusInternalError   = 500
	statusGatewayTimeout  = 504
)

// Class says what one answer of the API server means for the drill (facts.md B1).
type Class string

// The classes. Only explicit-deny, call-timeout, allowed-fast and allowed-slow prove anything.
const (
	ClientError      Class = "client-error"
	APIServerTimeout Class = "apiserver-timeout"
	OtherHook        Class = "other-hook"
	CallTimeout      Class = "call-timeout"
	CallError        Class = "call-error"
	ExplicitDeny     Class = "explicit-deny"
	DenyByError      Class = "deny-by-error"
	DenyUnknown      Class = "deny-unknown"
	SetupError       Class = "setup-error"
	Unrelated        Class = "unrelated"
	AllowedFast      Class = "allowed-fast"
	AllowedSlow      Class = "allowed-slow"
	AllowedOdd       Class = "allowed-odd" // neither fast nor about the hook's timeout
)

// The limits between fast, slow and odd, in microseconds. A healthy answer takes about 10 ms and a
// request that waited for the whole hook timeout takes the timeout and up to 30 ms (facts.md M), so
// the window around the timeout leaves room for a loaded machine and still cannot be met by chance.
const (
	fastBelowUS    = 1_000_000
	beforeTimeout  = 200_000
	afterTimeoutUS = 2_000_000
)

// The beginnings of the messages in which the API server speaks about a webhook (facts.md A2). They
// are matched at the start only: what follows can be chosen by the author of a policy.
const (
	callPrefix  = "Internal error occurred: failed calling webhook "
	hookPrefix  = "admission webhook "
	deniedText  = " denied the request"
	noDryRun    = " does not support dry run"
	timeoutText = "Timeout: request did not complete within "
)

// Prompt says whether an answer came as fast as that of a healthy webhook. A denial that took longer
// proves no less that the rule fired, but not that the webhook answers as it should.
func Prompt(s Sample) bool { return s.LatencyUS >= 0 && s.LatencyUS < fastBelowUS }

// Answer is what came back for one request. Either ClientErr is set, or HasStatus, or Allowed.
type Answer struct {
	// ClientErr is the error of a request that got no Status from the server.
	ClientErr string
	// HasStatus says whether the server answered with a Status; Code, Reason and Message are its.
	HasStatus bool
	Code      int
	Reason    string
	Message   string
	// Allowed says whether the object was created (or would have been, in a dry run).
	Allowed bool
	// LatencyUS is the time from sending to the answer in microseconds.
	LatencyUS int64
}

// Expected is the webhook entry that the drill watches.
type Expected struct {
	Webhook        string
	Policy         string
	DenyMessage    string
	TimeoutSeconds int
}

// Classify says what one answer means, in the order of facts.md B1. It never decides by the HTTP
// code alone and never by words inside a message.
func Classify(a Answer, hook Expected) Class {
	switch {
	case a.ClientErr != "", !a.HasStatus && !a.Allowed:
		return ClientError
	case a.HasStatus && a.Allowed:
		return Unrelated
	case a.Allowed:
		return classifyAllowed(a.LatencyUS, hook.TimeoutSeconds)
	}
	named := HookNamed(a.Message)
	switch {
	case named == "" && outOfTime(a):
		return APIServerTimeout
	case strings.HasPrefix(a.Message, callPrefix):
		return classifyCall(a, named, hook)
	case strings.HasPrefix(a.Message, hookPrefix):
		return classifyDenial(a.Message, named, hook)
	default:
		return Unrelated
	}
}

func classifyAllowed(latencyUS int64, timeoutSeconds int) Class {
	switch {
	case latencyUS < 0:
		return AllowedOdd
	case latencyUS < fastBelowUS:
		return AllowedFast
	case aboutTimeout(latencyUS, timeoutSeconds):
		return AllowedSlow
	default:
		return AllowedOdd
	}
}

// aboutTimeout says whether a latency is that of a request that waited for the hook's timeout.
func aboutTimeout(latencyUS int64, timeoutSeconds int) bool {
	timeout := int64(timeoutSeconds) * 1_000_000
	return timeout > 0 && latencyUS >= timeout-beforeTimeout && latencyUS <= timeout+afterTimeoutUS
}

// outOfTime says whether the API server gave up on the whole request (W-03).
func outOfTime(a Answer) bool {
	return a.Code == statusGatewayTimeout || a.Reason == "Timeout" || strings.HasPrefix(a.Message, timeoutText)
}

func classifyCall(a Answer, named string, hook Expected) Class {
	switch {
	case named == "", a.Code != statusInternalError && a.Reason != "InternalError":
		return Unrelated
	case named != hook.Webhook:
		return OtherHook
	case callFault(a.Message) == faultTimeout:
		return CallTimeout
	default:
		return CallError
	}
}

func classifyDenial(message, named string, hook Expected) Class {
	_, rest, ok := quotedName(message, hookPrefix)
	switch {
	case !ok:
		return Unrelated
	case rest == noDryRun:
		return SetupError
	case !strings.HasPrefix(rest, deniedText):
		return Unrelated
	case named != hook.Webhook:
		return OtherHook
	}
	said := strings.TrimPrefix(rest, deniedText)
	text, explained := strings.CutPrefix(said, ": ")
	switch {
	case !explained:
		return DenyUnknown
	case ruleFired(text, hook):
		return ExplicitDeny
	case hook.Policy != "" && strings.HasPrefix(text, "Policy "+hook.Policy+" error:"):
		return DenyByError
	default:
		return DenyUnknown
	}
}

// ruleFired says whether a denial is our policy's rule speaking: its name and its message, at the
// start, because another policy's message may contain both.
func ruleFired(text string, hook Expected) bool {
	if hook.Policy == "" || hook.DenyMessage == "" {
		return false
	}
	said, ok := strings.CutPrefix(text, "Policy "+hook.Policy+" failed: "+hook.DenyMessage)
	return ok && (said == "" || strings.HasPrefix(said, "; "))
}

// HookNamed returns the webhook that a message of the API server is about, or "" when it is about
// none. The name is only taken from where the server itself writes it.
func HookNamed(message string) string {
	for _, prefix := range []string{callPrefix, hookPrefix} {
		if name, _, ok := quotedName(message, prefix); ok {
			return name
		}
	}
	return ""
}

// quotedName reads the quoted name behind a prefix and returns it with what follows it.
func quotedName(message, prefix string) (name, rest string, ok bool) {
	after, ok := strings.CutPrefix(message, prefix)
	if !ok || !strings.HasPrefix(after, `"`) {
		return "", "", false
	}
	quoted, err := strconv.QuotedPrefix(after)
	if err != nil {
		return "", "", false
	}
	name, err = strconv.Unquote(quoted)
	if err != nil || name == "" {
		return "", "", false
	}
	return name, after[len(quoted):], true
}
