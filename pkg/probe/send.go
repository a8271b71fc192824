package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kube-lab.dev/kube-lab/pkg/drill"
)

// body is the request's Pod as JSON, encoded before the clock starts.
func (p *Prober) body(r Request) ([]byte, error) {
	return json.Marshal(Pod(r, p.lab, p.image))
}

// send sends one prepared request. Nothing is sent twice: an answer that asks to come again later is
// an answer.
func (p *Prober) send(ctx context.Context, r Request, body []byte, encoding error) drill.Sample {
	s := drill.Sample{
		Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, DryRun: r.DryRun,
		Labels:   Pod(r, p.lab, p.image).Labels,
		Stored:   drill.Stored{State: drill.StoredUnknown},
		Warnings: []string{},
	}
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	request := p.client.Post().Namespace(r.Namespace).Resource("pods").
		Param("fieldManager", "kubectl-kca").MaxRetries(0).SetHeader("Content-Type", "application/json").Body(body)
	if r.DryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	var result rest.Result
	s.SentUS = p.clock()
	if encoding == nil {
		result = request.Do(ctx)
	}
	s.ReceivedUS = p.clock()
	s.LatencyUS = s.ReceivedUS - s.SentUS
	for _, w := range result.Warnings() {
		s.Warnings = append(s.Warnings, w.Text)
	}
	var answer drill.Answer
	if encoding != nil {
		answer.ClientErr = fmt.Sprintf("encoding the request: %v", encoding)
	} else {
		answer = read(result, r, &s)
	}
	answer.LatencyUS = s.LatencyUS
	if answer.ClientErr != "" {
		s.Message = answer.ClientErr
	}
	s.Class, s.Hook = drill.Classify(answer, p.expected), drill.HookNamed(s.Message)
	return s
}

// read turns a result into an answer and copies it to the sample. It looks at the bytes of the
// answer itself: for an answer that is no Status, such as a proxy's page, client-go makes up a
// Status of its own, which must not pass for the API server's. The sample's code stays null then.
func read(result rest.Result, r Request, s *drill.Sample) drill.Answer {
	var code int
	result.StatusCode(&code)
	raw, err := result.Raw()
	if code == 0 {
		if err == nil {
			err = fmt.Errorf("no answer")
		}
		return drill.Answer{ClientErr: err.Error()}
	}
	if code == http.StatusCreated {
		uid, err := createdUID(raw, r)
		if err != nil {
			return drill.Answer{ClientErr: err.Error()}
		}
		s.HTTPCode, s.UID = &code, uid
		return drill.Answer{Allowed: true, Code: code}
	}
	status, ok := statusOf(raw)
	if !ok {
		return drill.Answer{ClientErr: fmt.Sprintf("expected a Status or a Pod from the API server, saw HTTP %d with %s", code, excerpt(raw))}
	}
	s.HTTPCode, s.Reason, s.Message = &code, string(status.Reason), status.Message
	return drill.Answer{HasStatus: true, Code: code, Reason: s.Reason, Message: s.Message}
}

// statusOf decodes a failure Status of the API server.
func statusOf(raw []byte) (metav1.Status, bool) {
	var status metav1.Status
	if err := json.Unmarshal(raw, &status); err != nil {
		return status, false
	}
	return status, status.Kind == "Status" && status.APIVersion == "v1" && status.Status == metav1.StatusFailure
}

// createdUID is the UID of the Pod in an answer, which must be the very Pod that was asked for.
func createdUID(raw []byte, r Request) (string, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return "", fmt.Errorf("reading the created Pod: %w", err)
	}
	if pod.Kind != "Pod" || pod.Namespace != r.Namespace || pod.Name != r.Name || pod.UID == "" {
		return "", fmt.Errorf("expected Pod %s/%s with a UID in the answer, saw %s", r.Namespace, r.Name, excerpt(raw))
	}
	return string(pod.UID), nil
}

// excerpt is the beginning of an answer, quoted for a message of one line.
func excerpt(raw []byte) string {
	const longest = 120
	if len(raw) == 0 {
		return "no body"
	}
	if len(raw) > longest {
		return fmt.Sprintf("%q…", raw[:longest])
	}
	return fmt.Sprintf("%q", raw)
}

// Stored asks the API server, after the answer, whether the sample's Pod is there. Where the answer
// held a UID, only that very Pod counts; an error of any kind leaves it unknown.
func (p *Prober) Stored(ctx context.Context, s drill.Sample) drill.Stored {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	raw, err := p.client.Get().Namespace(s.Namespace).Resource("pods").Name(s.Name).Do(ctx).Raw()
	if absent(raw, err) {
		return drill.Stored{State: drill.StoredNo}
	}
	if err != nil {
		return drill.Stored{State: drill.StoredUnknown}
	}
	uid, err := createdUID(raw, Request{Namespace: s.Namespace, Name: s.Name})
	if err != nil || s.UID != "" && s.UID != uid {
		return drill.Stored{State: drill.StoredUnknown}
	}
	return drill.Stored{State: drill.StoredYes, UID: uid}
}

// absent says whether the API server itself answered that this Pod does not exist. A namespace or a
// path that is not found is another answer.
func absent(raw []byte, err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	status, ok := statusOf(raw)
	return ok && status.Reason == metav1.StatusReasonNotFound && status.Details != nil && status.Details.Kind == "pods"
}
