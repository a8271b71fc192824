// Package krew renders krew plugin manifests: the template that krew-release-bot reads (.krew.yaml) and, from that
// very template, the finished manifests.
package krew

import (
	_ "embed" // the manifest template
	"fmt"
	"strings"
	"text/template"

	"kube-lab.dev/kube-lab/hack/release/catalog"
)

//go:embed krew.yaml.tmpl
var manifestTemplate string

// tagName is how the bot's templates spell the release tag.
const tagName = "{{ .TagName }}"

type templateData struct {
	Default, Homepage string
	Plugins           []pluginData
}

type pluginData struct {
	Name, Short, Description, Caveats string
	Platforms                         []platformData
}

type platformData struct {
	OS, Arch, Bin, URL string
}

// Template is the content of .krew.yaml: a template for krew-release-bot that covers every plugin of the catalogue.
func Template(c catalog.Catalog) (string, error) {
	home, err := c.Spec.HomepageURL()
	if err != nil {
		return "", err
	}
	data := templateData{Default: c.Spec.Plugins[0].Name, Homepage: home}
	for _, p := range c.Spec.Plugins {
		one := pluginData{
			Name:        p.Name,
			Short:       p.ShortDescription.EN,
			Description: block(p.Description.EN),
			Caveats:     block(p.Caveats.EN),
		}
		for _, on := range c.Spec.Platforms {
			url, err := c.Spec.ArchiveURL(tagName, p.Archive(tagName, on))
			if err != nil {
				return "", err
			}
			one.Platforms = append(one.Platforms, platformData{OS: on.OS, Arch: on.Arch, Bin: p.Bin, URL: url})
		}
		data.Plugins = append(data.Plugins, one)
	}
	// Other delimiters, because the result is itself a template.
	t, err := template.New(".krew.yaml").Delims("[[", "]]").Parse(manifestTemplate)
	if err != nil {
		return "", fmt.Errorf("parsing the manifest template: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", fmt.Errorf("rendering .krew.yaml: %w", err)
	}
	return b.String(), nil
}

// block indents text as the content of a YAML block scalar below spec.
func block(text string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
