// Package catalog reads plugins.yaml, the list of this suite's kubectl plugins and of how they are released.
package catalog

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

const (
	apiVersion = "kube-lab.dev/v1alpha1"
	kind       = "PluginCatalog"

	// What reviewers of the public krew index ask for: krew's table cuts longer ones.
	maxShortDescription = 50
	maxDescriptionWidth = 80
)

// Catalog is the content of plugins.yaml. Its JSON Schema is schemas/plugin-catalog.v1alpha1.schema.json.
type Catalog struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata names the suite.
type Metadata struct {
	Name string `json:"name"`
}

// Spec says where releases live and what is in them.
type Spec struct {
	Owner       string     `json:"owner"`
	Repository  string     `json:"repository"`
	License     string     `json:"license"`     // SPDX identifier of the LICENSE file
	Homepage    string     `json:"homepage"`    // template over Owner and Repository
	DownloadURL string     `json:"downloadURL"` // template over Owner, Repository, Tag and Archive
	Platforms   []Platform `json:"platforms"`
	Plugins     []Plugin   `json:"plugins"`
}

// Platform is one pair that Go builds for.
type Platform struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

func (p Platform) String() string { return p.OS + "-" + p.Arch }

// Plugin is one kubectl plugin.
type Plugin struct {
	Name             string      `json:"name"`
	Bin              string      `json:"bin"`
	Package          string      `json:"package"`
	Companions       []Companion `json:"companions,omitempty"`
	ShortDescription Text        `json:"shortDescription"`
	Description      Text        `json:"description"`
	Caveats          Text        `json:"caveats"`
}

// Archive is the file name of the plugin's release archive for one platform.
func (p Plugin) Archive(tag string, on Platform) string {
	return fmt.Sprintf("%s-%s-%s.tar.gz", p.Bin, tag, on)
}

// Companion is a further binary that lies beside the plugin in every archive.
type Companion struct {
	Name      string     `json:"name"`
	Package   string     `json:"package"`
	Platforms []Platform `json:"platforms"`
}

// File is the companion's file name for one platform.
func (c Companion) File(on Platform) string { return c.Name + "-" + on.String() }

// Text is the same text in English and in Japanese.
type Text struct {
	EN string `json:"en"`
	JA string `json:"ja"`
}

// Load reads a catalogue strictly: an unknown or repeated key is an error, and so is a value a release would trip over.
func Load(path string) (Catalog, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Catalog{}, fmt.Errorf("reading the plugin catalogue: %w", err)
	}
	var c Catalog
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		return Catalog{}, fmt.Errorf("decoding %s: %w", path, err)
	}
	if err := c.validate(); err != nil {
		return Catalog{}, fmt.Errorf("checking %s: %w", path, err)
	}
	return c, nil
}

// HomepageURL is the project's page.
func (s Spec) HomepageURL() (string, error) {
	return fill("homepage", s.Homepage, map[string]string{"Owner": s.Owner, "Repository": s.Repository})
}

// ArchiveURL is where an archive of a release can be downloaded.
func (s Spec) ArchiveURL(tag, archive string) (string, error) {
	return fill("downloadURL", s.DownloadURL, map[string]string{
		"Owner": s.Owner, "Repository": s.Repository, "Tag": tag, "Archive": archive,
	})
}

func fill(field, text string, values map[string]string) (string, error) {
	t, err := template.New(field).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("parsing spec.%s: %w", field, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, values); err != nil {
		return "", fmt.Errorf("filling in spec.%s: %w", field, err)
	}
	return b.String(), nil
}

func (c Catalog) validate() error {
	if c.APIVersion != apiVersion || c.Kind != kind {
		return fmt.Errorf("expected %s %s, seen %q %q", apiVersion, kind, c.APIVersion, c.Kind)
	}
	if c.Spec.Owner == "" || c.Spec.Repository == "" {
		return fmt.Errorf("expected spec.owner and spec.repository, seen %q and %q", c.Spec.Owner, c.Spec.Repository)
	}
	if len(c.Spec.Platforms) == 0 || len(c.Spec.Plugins) == 0 {
		return fmt.Errorf("expected at least one platform and one plugin, seen %d and %d", len(c.Spec.Platforms), len(c.Spec.Plugins))
	}
	if _, err := c.Spec.HomepageURL(); err != nil {
		return err
	}
	if _, err := c.Spec.ArchiveURL("v1.0.0", "archive"); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, p := range c.Spec.Plugins {
		if names[p.Name] {
			return fmt.Errorf("plugin %q is listed twice", p.Name)
		}
		names[p.Name] = true
		if err := p.validate(); err != nil {
			return fmt.Errorf("plugin %q: %w", p.Name, err)
		}
	}
	return nil
}

func (p Plugin) validate() error {
	if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(p.Name) {
		return fmt.Errorf("expected a lower-case kebab-case name")
	}
	// kubectl finds a plugin with dashes in its name under underscores.
	if want := "kubectl-" + strings.ReplaceAll(p.Name, "-", "_"); p.Bin != want {
		return fmt.Errorf("expected bin %q, seen %q", want, p.Bin)
	}
	if !strings.HasPrefix(p.Package, "./cmd/") {
		return fmt.Errorf("expected a package below ./cmd/, seen %q", p.Package)
	}
	if err := checkShort(p.ShortDescription.EN); err != nil {
		return err
	}
	for _, text := range []string{p.ShortDescription.EN, p.ShortDescription.JA, p.Description.EN, p.Description.JA} {
		if strings.TrimSpace(text) == "" {
			return fmt.Errorf("expected both descriptions in both languages, one is empty")
		}
	}
	for _, text := range []string{p.ShortDescription.EN, p.Description.EN, p.Caveats.EN} {
		// The text passes through krew-release-bot's template engine.
		if strings.Contains(text, "{{") {
			return fmt.Errorf("expected text without {{, seen %q", text)
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > maxDescriptionWidth {
				return fmt.Errorf("expected lines of at most %d columns, seen %d: %q", maxDescriptionWidth, n, line)
			}
		}
	}
	return nil
}

func checkShort(s string) error {
	first, _ := utf8.DecodeRuneInString(s)
	switch n := utf8.RuneCountInString(s); {
	case n > maxShortDescription:
		return fmt.Errorf("expected a short description of at most %d characters, seen %d", maxShortDescription, n)
	case !unicode.IsUpper(first):
		return fmt.Errorf("expected a short description that starts with a capital letter, seen %q", s)
	case strings.ContainsAny(s, "\n\r"):
		return fmt.Errorf("expected a short description of one line, seen %q", s)
	}
	return nil
}
