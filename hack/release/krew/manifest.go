package krew

import (
	"fmt"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// Manifest is a krew v1alpha2 plugin manifest, as far as this project writes one. krew itself ignores unknown fields;
// reading into this type strictly finds the typo.
type Manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats,omitempty"`
		Platforms        []Platform `json:"platforms"`
	} `json:"spec"`
}

// Platform is where one archive is and on which machines it runs.
type Platform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

// Parse reads a manifest strictly.
func Parse(raw []byte) (Manifest, error) {
	var m Manifest
	if err := yaml.UnmarshalStrict(raw, &m); err != nil {
		return Manifest{}, fmt.Errorf("decoding the krew manifest: %w", err)
	}
	return m, nil
}

// release is what krew-release-bot hands to a template; the field names are the bot's.
type release struct {
	TagName    string
	PluginName string
}

// Render renders a .krew.yaml for one plugin and release. An empty plugin gives what the bot itself would publish.
// digest returns the lower-case SHA-256 of the archive behind a download address.
func Render(krewYAML, plugin, tag string, digest func(url string) (string, error)) ([]byte, error) {
	t, err := template.New(".krew.yaml").Funcs(template.FuncMap{
		// The bot's function of this name, in its fixed four-space form.
		"addURIAndSha": func(url, tag string) (string, error) {
			url, err := expand(url, tag)
			if err != nil {
				return "", err
			}
			sum, err := digest(url)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("uri: %s\n    sha256: %s", url, sum), nil
		},
	}).Parse(krewYAML)
	if err != nil {
		return nil, fmt.Errorf("parsing .krew.yaml: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, release{TagName: tag, PluginName: plugin}); err != nil {
		return nil, fmt.Errorf("rendering the manifest of %q: %w", plugin, err)
	}
	return []byte(b.String()), nil
}

func expand(url, tag string) (string, error) {
	t, err := template.New("url").Parse(url)
	if err != nil {
		return "", fmt.Errorf("parsing the address %q: %w", url, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, release{TagName: tag}); err != nil {
		return "", fmt.Errorf("filling in the address %q: %w", url, err)
	}
	return b.String(), nil
}
