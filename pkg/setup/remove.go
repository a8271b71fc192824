package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Removal is what became of one object.
type Removal struct {
	Object string
	// Done means that it is gone or going; otherwise Why says why it was left alone.
	Done bool
	Why  string
	// Own means that it was left alone although it is the very object that the lab recorded.
	Own bool
}

// RemoveNamespace deletes a namespace that carries the lab's labels and has this UID, and no other.
func RemoveNamespace(ctx context.Context, client kubernetes.Interface, name, uid, lab string) (Removal, error) {
	r := Removal{Object: "namespace " + name}
	live, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Removal{Object: r.Object, Done: true, Why: "was gone already"}, nil
	case err != nil:
		return r, fmt.Errorf("reading namespace %s: %w", name, err)
	case !Mine(live.Labels, lab):
		r.Why, r.Own = "it does not carry the lab's labels", uid != "" && string(live.UID) == uid
		return r, nil
	case uid == "" || string(live.UID) != uid:
		r.Why = fmt.Sprintf("its UID is %s, init recorded %s", live.UID, orNone(uid))
		return r, nil
	}
	err = client.CoreV1().Namespaces().Delete(ctx, name, onlyUID(uid))
	if err != nil && !apierrors.IsNotFound(err) {
		return r, fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	r.Done = true
	return r, nil
}

// onlyUID lets the API server itself refuse the deletion of an object that took the name since.
func onlyUID(uid string) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(uid)}
}

// AwaitGone waits until no namespace of these name → UID pairs is left, and names what blocks when
// one stays. It removes no finalizer: those belong to somebody.
func AwaitGone(ctx context.Context, client kubernetes.Interface, namespaces map[string]string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for name, uid := range namespaces {
		blocked := ""
		err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
			live, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && string(live.UID) != uid {
				return true, nil
			}
			if err == nil {
				blocked = blockers(live)
			}
			return false, fatal(err)
		})
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("namespace %s: expected it gone within %s, saw Terminating%s; see to that, then run reset again", name, limit, inColon(blocked))
		}
		if err != nil {
			return fmt.Errorf("waiting until namespace %s is gone: %w", name, err)
		}
	}
	return nil
}
