package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"regexp"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// notInKubeconfig is how client-go, which has no type for it, says that a context, user or cluster
// is unknown.
var notInKubeconfig = regexp.MustCompile(`^(context|auth info|cluster) ".*" does not exist$`)

// explain words err for the person who has to act on it. What our own code says, before and after,
// is already worded; what client-go and the API server say gets what was expected and the next step.
func explain(err error) string {
	for _, known := range []func(error) (text string, inner error){
		explainStatus, explainConfig, explainConnection,
	} {
		text, inner := known(err)
		if text == "" {
			continue
		}
		before, after, found := strings.Cut(err.Error(), inner.Error())
		if !found {
			return text
		}
		return before + text + after
	}
	return err.Error()
}

func explainStatus(err error) (string, error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", nil
	}
	inner, ok := status.(error)
	if !ok {
		return "", nil
	}
	message := status.Status().Message
	switch status.Status().Reason {
	case metav1.StatusReasonUnauthorized:
		return "expected the API server to accept your credentials, saw Unauthorized; log in again, or choose another --context", inner
	case metav1.StatusReasonForbidden:
		if strings.Contains(message, ": User ") || strings.Contains(message, "cannot ") {
			return fmt.Sprintf("expected the right to do this, saw: %s; ask for that right, or choose another --context or --as", message), inner
		}
	}
	return "", nil
}

func explainConfig(err error) (string, error) {
	var path *fs.PathError
	switch {
	case clientcmd.IsContextNotFound(err), notInKubeconfig.MatchString(err.Error()):
		return fmt.Sprintf("expected a context that the kubeconfig has, saw: %s; `kubectl config get-contexts` lists them", err), err
	case errors.As(err, &path) && strings.HasPrefix(err.Error(), "stat ") && errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("expected a file at %s, saw none; check --kubeconfig", path.Path), err
	}
	return "", nil
}

func explainConnection(err error) (string, error) {
	var call *url.Error
	if !errors.As(err, &call) {
		return "", nil
	}
	server := call.URL
	if u, err := url.Parse(call.URL); err == nil {
		server = u.Scheme + "://" + u.Host
	}
	seen, next := connectionFault(call)
	if seen == "" {
		return "", nil
	}
	return fmt.Sprintf("expected the API server at %s to answer, saw %s; %s", server, seen, next), call
}

// connectionFault names what went wrong on the way to the server and what to do. It never advises
// to switch the certificate check off: with a wrong name the kubeconfig's tls-server-name is right.
func connectionFault(call *url.Error) (seen, next string) {
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.Is(call, syscall.ECONNREFUSED):
		return "connection refused", "start the cluster, or choose another --context"
	case errors.Is(call, syscall.ECONNRESET):
		return "connection reset", "try again, or see whether something between you and the cluster closes connections"
	case errors.As(call, &dns):
		return "no address for host " + dns.Name, "check the server's name in the kubeconfig, and your network"
	case errors.As(call, &host):
		return host.Error(), "set tls-server-name of the cluster in the kubeconfig to a name in its certificate"
	case errors.As(call, &authority):
		return "a certificate of an unknown authority", "give the cluster's own certificate-authority in the kubeconfig; it may be another cluster than you think"
	case errors.As(call, &invalid):
		return invalid.Error(), "renew the certificate, or correct this machine's clock"
	case errors.As(call, &verify):
		return verify.Err.Error(), "check certificate-authority and tls-server-name in the kubeconfig"
	case errors.As(call, &record), strings.Contains(call.Error(), "server gave HTTP response to HTTPS client"):
		return "an answer that is not TLS", "check the server's scheme and port in the kubeconfig"
	case call.Timeout():
		return "no answer in time", "check that the cluster runs and is reachable, or raise --request-timeout"
	case errors.Is(call, syscall.EHOSTUNREACH), errors.Is(call, syscall.ENETUNREACH):
		return "no route to it", "check your network, or choose another --context"
	}
	return "", ""
}
