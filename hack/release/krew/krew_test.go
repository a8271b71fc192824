package krew

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/hack/release/catalog"
)

func ours(t *testing.T) (catalog.Catalog, string) {
	t.Helper()
	c, err := catalog.Load("../../../plugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Template(c)
	if err != nil {
		t.Fatal(err)
	}
	return c, text
}

// fakeDigest has a letter in front: YAML would read 64 figures as a number. (A real digest without any letter has a
// chance of 1 in 10^13.)
func fakeDigest(n int) string { return fmt.Sprintf("a%063x", n) }

// digests counts what it is asked for, so that each archive gets a digest of its own.
func digests() func(string) (string, error) {
	n := 0
	return func(string) (string, error) { n++; return fakeDigest(n), nil }
}

func TestRenderedManifestHoldsWhatTheCatalogueSays(t *testing.T) {
	c, text := ours(t)
	for _, p := range c.Spec.Plugins {
		raw, err := Render(text, p.Name, "v1.2.3", digests())
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(raw)
		if err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		var want Manifest
		want.APIVersion, want.Kind = "krew.googlecontainertools.github.com/v1alpha2", "Plugin"
		want.Metadata.Name = p.Name
		want.Spec.Version = "v1.2.3"
		want.Spec.Homepage = "https://github.com/" + c.Spec.Owner + "/" + c.Spec.Repository
		want.Spec.ShortDescription = p.ShortDescription.EN
		want.Spec.Description = p.Description.EN
		want.Spec.Caveats = p.Caveats.EN
		for i, on := range c.Spec.Platforms {
			var w Platform
			w.Selector.MatchLabels = map[string]string{"os": on.OS, "arch": on.Arch}
			w.URI = want.Spec.Homepage + "/releases/download/v1.2.3/" + p.Archive("v1.2.3", on)
			w.SHA256 = fakeDigest(i + 1)
			w.Bin = p.Bin
			want.Spec.Platforms = append(want.Spec.Platforms, w)
		}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Errorf("manifest of %s (-want +got):\n%s", p.Name, diff)
		}
		if strings.Contains(string(raw), "{{") {
			t.Errorf("the manifest still holds template braces; the bot would render it again:\n%s", raw)
		}
	}
}

// TestBotPublishesTheFirstPlugin: krew-release-bot renders with an empty PluginName.
func TestBotPublishesTheFirstPlugin(t *testing.T) {
	c, text := ours(t)
	bot, err := Render(text, "", "v1.2.3", digests())
	if err != nil {
		t.Fatal(err)
	}
	named, err := Render(text, c.Spec.Plugins[0].Name, "v1.2.3", digests())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(named), string(bot)); diff != "" {
		t.Errorf("what the bot renders differs (-named +bot):\n%s", diff)
	}
}

func TestOneTemplateServesSeveralPlugins(t *testing.T) {
	c, _ := ours(t)
	second := c.Spec.Plugins[0]
	second.Name, second.Bin, second.Caveats = "second", "kubectl-second", catalog.Text{}
	second.ShortDescription.EN = "Another one"
	c.Spec.Plugins = append(c.Spec.Plugins, second)
	text, err := Template(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Spec.Plugins {
		raw, err := Render(text, p.Name, "v1.0.0", digests())
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(raw)
		if err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		if m.Metadata.Name != p.Name || m.Spec.ShortDescription != p.ShortDescription.EN || m.Spec.Caveats != p.Caveats.EN {
			t.Errorf("asked for %s, got %s with %q", p.Name, m.Metadata.Name, m.Spec.ShortDescription)
		}
		if len(m.Spec.Platforms) != len(c.Spec.Platforms) {
			t.Errorf("%s: %d platforms, want %d", p.Name, len(m.Spec.Platforms), len(c.Spec.Platforms))
		}
		for _, on := range m.Spec.Platforms {
			if on.Bin != p.Bin || !strings.HasPrefix(path.Base(on.URI), p.Bin+"-v1.0.0-") {
				t.Errorf("%s gets %s from %s", p.Name, on.Bin, on.URI)
			}
		}
	}
}

func TestRenderReportsAMissingArchive(t *testing.T) {
	_, text := ours(t)
	gone := errors.New("no such archive")
	_, err := Render(text, "kca", "v1.2.3", func(string) (string, error) { return "", gone })
	if !errors.Is(err, gone) {
		t.Errorf("error %v, want %v", err, gone)
	}
}

func TestParseRefusesATypo(t *testing.T) {
	for _, text := range []string{"kind: Plugin\nspecs: {}\n", "kind: Plugin\nkind: Plugin\n"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("accepted %q", text)
		}
	}
}
