package drill

import "strings"

// Fault is why the API server could not get an answer from a webhook.
type Fault string

// The faults of a failed call. Only a timeout is what a stopped process causes.
const (
	faultTimeout Fault = "timeout"

	FaultRefused     Fault = "refused"
	FaultNoService   Fault = "no-service"
	FaultNoEndpoint  Fault = "no-endpoint"
	FaultCertificate Fault = "certificate"
	FaultConnection  Fault = "connection"
	FaultAnswer      Fault = "answer"
	FaultOther       Fault = "other"
)

// CallFault returns why a call failed that Classify called call-error, and what a person can do
// about it. Both are "" for any other message.
func CallFault(message string) (Fault, string) {
	fault := callFault(message)
	switch fault {
	case "", faultTimeout:
		return "", ""
	case FaultRefused:
		return fault, "A stopped process does not refuse: look whether the admission Pod restarted or crashed (kubectl get pods), then start a new lab."
	case FaultNoService:
		return fault, "A webhook configuration was left behind without its Service; bring the Service back, or delete that ValidatingWebhookConfiguration, which no webhook can prevent."
	case FaultNoEndpoint:
		return fault, "No admission Pod is ready behind the Service: wait until one is, then start a new lab."
	case FaultCertificate:
		return fault, "The API server does not trust the webhook's certificate: compare the caBundle with the certificate of the admission Pod."
	default:
		return fault, "The webhook failed in another way than by not answering: read the message and the log of the admission Pod."
	}
}

// callFault reads the cause behind `failed calling webhook "…": `. Older servers leave out the part
// `failed to call webhook: `, and older ones still write the URL without quotes (W-01).
func callFault(message string) Fault {
	_, rest, ok := quotedName(message, callPrefix)
	if !ok {
		return ""
	}
	cause, explained := strings.CutPrefix(rest, ": ")
	if !explained {
		return FaultOther
	}
	cause = strings.TrimPrefix(cause, "failed to call webhook: ")
	if _, behind, posted := postedTo(cause); posted {
		cause = behind
	}
	if timedOut(cause) {
		return faultTimeout
	}
	return otherFault(cause)
}

// postedTo splits `Post "https://…": cause`, with and without the quotes.
func postedTo(text string) (url, cause string, ok bool) {
	rest, ok := strings.CutPrefix(text, "Post ")
	if !ok {
		return "", "", false
	}
	if name, behind, quoted := quotedName(text, "Post "); quoted {
		cause, ok = strings.CutPrefix(behind, ": ")
		return name, cause, ok
	}
	return strings.Cut(rest, ": ")
}

// timedOut knows the texts of facts.md A2 for a call that ran out of time. The whole cause is
// matched, because the body of a failed answer is quoted inside other causes.
func timedOut(cause string) bool {
	switch cause {
	case "context deadline exceeded",
		"context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
		"net/http: TLS handshake timeout":
		return true
	}
	for _, p := range []string{"net/http: request canceled (Client.Timeout", "net/http: request canceled while waiting for connection ("} {
		if strings.HasPrefix(cause, p) && strings.HasSuffix(cause, ")") {
			return true
		}
	}
	// A name that could not be looked up in time says nothing about the process behind it.
	return strings.HasPrefix(cause, "dial tcp ") && strings.HasSuffix(cause, ": i/o timeout") && !strings.Contains(cause, " lookup ")
}

// otherFault sorts the remaining causes for a person; nothing is proved by them.
func otherFault(cause string) Fault {
	switch {
	case strings.HasSuffix(cause, "connect: connection refused"):
		return FaultRefused
	case strings.HasPrefix(cause, "service ") && strings.HasSuffix(cause, " not found"):
		return FaultNoService
	case strings.HasPrefix(cause, "no endpoints available for service"):
		return FaultNoEndpoint
	case strings.HasPrefix(cause, "x509: "), strings.HasPrefix(cause, "tls: "):
		return FaultCertificate
	case cause == "EOF", cause == "unexpected EOF", strings.HasSuffix(cause, "connection reset by peer"):
		return FaultConnection
	case strings.HasPrefix(cause, "an error on the server "), strings.HasPrefix(cause, "received invalid webhook response"),
		strings.HasPrefix(cause, "expected webhook response of "), cause == "the server could not find the requested resource":
		return FaultAnswer
	default:
		return FaultOther
	}
}
