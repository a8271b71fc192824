// Package docs holds tests about what the repository tells its readers.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-lab.dev/kube-lab/pkg/cli"
)

const repo = "../.."

// page is one Markdown file, taken apart as far as the tests below compare it.
type page struct {
	headings []int    // level of each heading, in order
	commands []string // content of each fenced block
	codes    []int    // exit codes: first cells of table rows that are numbers, in the section of exit codes
	links    []string // targets of relative links
}

var link = regexp.MustCompile(`\]\(([^)]+)\)`)

func read(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo, name))
	if err != nil {
		t.Fatal(err)
	}
	var p page
	var block *strings.Builder
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```") && block == nil:
			block = &strings.Builder{}
		case strings.HasPrefix(line, "```"):
			p.commands = append(p.commands, block.String())
			block = nil
		case block != nil:
			block.WriteString(line)
		case strings.HasPrefix(line, "#"):
			p.headings = append(p.headings, len(line)-len(strings.TrimLeft(line, "#")))
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(m[1], "://") {
				p.links = append(p.links, m[1])
			}
		}
		// The table of acts counts from 1 to 8; the one of exit codes starts with 0.
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			n, err := strconv.Atoi(strings.TrimSpace(cells[1]))
			if err == nil && (n == 0 || len(p.codes) > 0) {
				p.codes = append(p.codes, n)
			}
		}
	}
	if block != nil {
		t.Errorf("%s: a fenced block does not end", name)
	}
	return p
}

func TestBothLanguagesOfTheReadmeSayTheSame(t *testing.T) {
	en, ja := read(t, "README.md"), read(t, "README.ja.md")
	if len(en.headings) < 5 || len(en.commands) < 3 {
		t.Fatalf("README.md has %d headings and %d command blocks: the test reads it wrongly", len(en.headings), len(en.commands))
	}
	if diff := cmp.Diff(en.headings, ja.headings); diff != "" {
		t.Errorf("levels of headings (-README.md +README.ja.md):\n%s", diff)
	}
	if diff := cmp.Diff(en.commands, ja.commands); diff != "" {
		t.Errorf("command blocks (-README.md +README.ja.md):\n%s", diff)
	}
}

func TestReadmesListTheExitCodesOfTheProgram(t *testing.T) {
	want := []int{cli.ExitOK, cli.ExitNo, cli.ExitTrouble, cli.ExitUncertain, cli.ExitTimeout, cli.ExitInterrupted}
	for _, name := range []string{"README.md", "README.ja.md"} {
		if diff := cmp.Diff(want, read(t, name).codes); diff != "" {
			t.Errorf("%s: exit codes (-program +page):\n%s", name, diff)
		}
	}
}

func TestRelativeLinksLeadSomewhere(t *testing.T) {
	pages := []string{"README.md", "README.ja.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/layout.md"}
	records, err := filepath.Glob(filepath.Join(repo, "docs/adr/*.md"))
	if err != nil || len(records) == 0 {
		t.Fatalf("docs/adr holds %d records (%v)", len(records), err)
	}
	for _, r := range records {
		pages = append(pages, "docs/adr/"+filepath.Base(r))
	}
	for _, name := range pages {
		for _, target := range read(t, name).links {
			file, _, _ := strings.Cut(target, "#")
			if _, err := os.Stat(filepath.Join(repo, filepath.Dir(name), file)); err != nil {
				t.Errorf("%s links to %s: %v", name, target, err)
			}
		}
	}
}
