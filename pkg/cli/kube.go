package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// KubeFlags adds kubectl's connection flags and klog's -v to root. Requests made with them carry
// the plugin's name and version as user agent and, as kubectl's do, the verb in a header, so that
// an audit log can tell them apart; each warning of the API server is printed once, to errOut.
func KubeFlags(root *cobra.Command, errOut io.Writer) *genericclioptions.ConfigFlags {
	headers := &genericclioptions.CommandHeaderRoundTripper{}
	kube := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	kube.WithWrapConfigFn(func(cfg *rest.Config) *rest.Config {
		cfg.UserAgent = UserAgent(root.Name())
		cfg.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{
			Deduplicate: true, Color: printers.AllowsColorOutput(errOut),
		})
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return &genericclioptions.CommandHeaderRoundTripper{Delegate: next, Headers: headers.Headers}
		})
		return cfg
	})
	kube.AddFlags(root.PersistentFlags())
	quieten := addVerbosity(root.PersistentFlags())
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		headers.ParseCommandHeaders(cmd, args)
		return quieten()
	}
	return kube
}

// RESTConfig is the connection that the flags and the kubeconfig name, as a copy of its own.
// Without any, client-go falls back to localhost:8080; that is refused, because nobody asked for it.
func RESTConfig(kube *genericclioptions.ConfigFlags) (*rest.Config, error) {
	cfg, err := kube.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	raw, err := kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, err
	}
	if len(raw.Clusters) == 0 && *kube.APIServer == "" && cfg.BearerTokenFile == "" {
		hint := SudoHint(*kube.KubeConfig)
		if hint != "" {
			hint = "; " + hint
		}
		return nil, fmt.Errorf("expected a kubeconfig that names a cluster, saw none in %s; set KUBECONFIG or give --kubeconfig%s",
			Kubeconfig(*kube.KubeConfig), hint)
	}
	return rest.CopyConfig(cfg), nil
}

// addVerbosity shows klog's -v and no other of its flags. The returned function silences klog unless
// -v was raised: client-go logs on its own what it also returns as an error, and a person needs it
// once.
func addVerbosity(flags *pflag.FlagSet) (quieten func() error) {
	all := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(all)
	flags.AddGoFlag(all.Lookup("v"))
	v := flags.Lookup("v")
	v.Usage = "log level of the Kubernetes client"
	return func() error {
		if v.Value.String() != "0" {
			return nil
		}
		klog.SetOutput(io.Discard)
		return errors.Join(all.Set("logtostderr", "false"), all.Set("stderrthreshold", "FATAL"))
	}
}

// UserAgent is how a plugin names itself to the API server.
func UserAgent(plugin string) string {
	v := Version()
	return fmt.Sprintf("%s/%s (%s)", plugin, v.Version, v.Platform)
}

// CheckRequestTimeout refuses a --request-timeout below least. A drill request waits for a webhook
// that does not answer; cut off earlier, its outcome would be the client's and not the server's.
// Zero, the default, means no limit.
func CheckRequestTimeout(kube *genericclioptions.ConfigFlags, least time.Duration) error {
	if kube.Timeout == nil || *kube.Timeout == "" {
		return nil
	}
	limit, err := clientcmd.ParseTimeout(*kube.Timeout)
	if err != nil {
		return Usagef("expected --request-timeout as 0, a number of seconds or a duration such as 30s, saw %q", *kube.Timeout)
	}
	if limit > 0 && limit < least {
		return Usagef("expected --request-timeout of 0 or at least %s, saw %s: it would cut off the time-outs this verb observes; leave it out", least, limit)
	}
	return nil
}
