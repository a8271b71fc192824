package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

const (
	repo       = "../../.."
	schemaFile = repo + "/schemas/plugin-catalog.v1alpha1.schema.json"
)

func loadOurs(t *testing.T) Catalog {
	t.Helper()
	c, err := Load(repo + "/plugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryPluginOfTheTreeIsListedAndViceVersa(t *testing.T) {
	folders, err := filepath.Glob(repo + "/cmd/kubectl-*")
	if err != nil {
		t.Fatal(err)
	}
	var inTree, listed []string
	for _, f := range folders {
		inTree = append(inTree, "./cmd/"+filepath.Base(f))
	}
	for _, p := range loadOurs(t).Spec.Plugins {
		listed = append(listed, p.Package)
	}
	if diff := cmp.Diff(inTree, listed); diff != "" {
		t.Errorf("cmd/kubectl-* (-) and plugins.yaml (+) differ:\n%s", diff)
	}
}

func TestLicenceIsTheOneNamed(t *testing.T) {
	text, err := os.ReadFile(repo + "/LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "Apache License") || loadOurs(t).Spec.License != "Apache-2.0" {
		t.Errorf("LICENSE and spec.license %q do not agree", loadOurs(t).Spec.License)
	}
}

// TestReadmesCarryTheCataloguesText keeps both languages of the catalogue in use and in step with the front pages.
func TestReadmesCarryTheCataloguesText(t *testing.T) {
	for _, p := range loadOurs(t).Spec.Plugins {
		for file, want := range map[string]string{"README.md": p.ShortDescription.EN, "README.ja.md": p.ShortDescription.JA} {
			text, err := os.ReadFile(filepath.Join(repo, file))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks the short description of %s: %q", file, p.Name, want)
			}
		}
	}
}

func TestOwnerStandsInOnePlaceOnly(t *testing.T) {
	text, err := os.ReadFile(repo + "/plugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := loadOurs(t)
	moved := strings.Replace(string(text), "owner: "+c.Spec.Owner, "owner: somebody-else", 1)
	path := filepath.Join(t.TempDir(), "plugins.yaml")
	if err := os.WriteFile(path, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = Load(path)
	if err != nil {
		t.Fatal(err)
	}
	home, err := c.Spec.HomepageURL()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := c.Spec.ArchiveURL("v1.2.3", "a.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"https://github.com/somebody-else/kube-lab",
		"https://github.com/somebody-else/kube-lab/releases/download/v1.2.3/a.tar.gz",
	}
	if diff := cmp.Diff(want, []string{home, archive}); diff != "" {
		t.Errorf("addresses after a change of owner (-want +got):\n%s", diff)
	}
}

// mutations are single faults in our own catalogue, by the text they replace.
var mutations = []struct {
	name, old, new string
	schema         bool // the schema can see it too
}{
	{"unknown key", "  license:", "  licence:", true},
	{"another version", "kube-lab.dev/v1alpha1", "kube-lab.dev/v1", true},
	{"another kind", "kind: PluginCatalog", "kind: Plugins", true},
	{"no owner", "owner: kube-lab", `owner: ""`, true},
	{"repeated key", "  owner: kube-lab\n", "  owner: kube-lab\n  owner: kube-lab\n", false},
	{"upper-case name", "- name: kca", "- name: KCA", true},
	{"binary that kubectl does not find", "bin: kubectl-kca", "bin: kca", true},
	{"package outside cmd", "package: ./cmd/kubectl-kca\n", "package: ./pkg/cli\n", true},
	{"unknown field in a template", "{{.Tag}}", "{{.Version}}", false},
	{"short description not capitalised", "en: Practise", "en: practise", false},
	{"short description too long", "en: Practise admission", "en: Practise and exercise and understand admission", false},
	{"template braces in a text", "en: Practise admission", "en: Practise {{admission}}", false},
	{"a language missing", "        ja: アドミッションWebhookの障害を安全に体験する演習\n", "", true},
}

func TestLoadRefusesSingleFaults(t *testing.T) {
	text, err := os.ReadFile(repo + "/plugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			bad := strings.Replace(string(text), m.old, m.new, 1)
			if bad == string(text) {
				t.Fatalf("plugins.yaml holds no %q: the case checks nothing", m.old)
			}
			path := filepath.Join(t.TempDir(), "plugins.yaml")
			if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(path); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(repo + "/plugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, text string) error {
		t.Helper()
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	if err := check(t, string(text)); err != nil {
		t.Errorf("plugins.yaml does not match its schema: %v", err)
	}
	for _, m := range mutations {
		if !m.schema {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			if check(t, strings.Replace(string(text), m.old, m.new, 1)) == nil {
				t.Error("accepted")
			}
		})
	}
}
