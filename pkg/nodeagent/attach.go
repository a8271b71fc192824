package nodeagent

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"kube-lab.dev/kube-lab/pkg/manifests"
)

// attacher connects a container's standard input and output until one of them ends.
type attacher interface {
	attach(ctx context.Context, pod, container string, in *commandPipe, out *feed) error
}

// remoteAttacher attaches through the API server: a websocket, or SPDY where that is refused.
type remoteAttacher struct {
	cfg    *rest.Config
	client kubernetes.Interface
}

func (t remoteAttacher) attach(ctx context.Context, pod, container string, in *commandPipe, out *feed) error {
	url := t.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(manifests.HelperNamespace).Name(pod).
		SubResource("attach").VersionedParams(&corev1.PodAttachOptions{Container: container, Stdin: true, Stdout: true}, scheme.ParameterCodec).URL()
	web, err := remotecommand.NewWebSocketExecutor(t.cfg, http.MethodGet, url.String())
	if err != nil {
		return fmt.Errorf("preparing a websocket: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(t.cfg, http.MethodPost, url)
	if err != nil {
		return fmt.Errorf("preparing SPDY: %w", err)
	}
	both, err := remotecommand.NewFallbackExecutor(web, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("preparing the stream: %w", err)
	}
	if err := both.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: newLineWriter(out)}); err != nil {
		return fmt.Errorf("streaming: %w", err)
	}
	return nil
}
