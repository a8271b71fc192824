package report

import (
	"encoding/xml"
	"io"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

// The part of the JUnit format that build servers agree on. An unknown outcome is an error there:
// the check did not come to an answer.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
	Out      string      `xml:"system-out,omitempty"`
}

type junitCase struct {
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	Failure *junitFault `xml:"failure"`
	Error   *junitFault `xml:"error"`
}

type junitFault struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

func writeJUnit(w io.Writer, title string, groups []Group, o options) error {
	if len(groups) == 0 {
		groups = []Group{{ID: "nothing", Name: "nothing"}}
	}
	all := junitSuites{Name: Escape(title)}
	for _, g := range groups {
		suite := junitSuiteOf(g)
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Errors += suite.Errors
		all.Suites = append(all.Suites, suite)
	}
	last := &all.Suites[len(all.Suites)-1]
	for _, note := range o.notes {
		last.Out += "note: " + Escape(note) + "\n"
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitSuiteOf(g Group) junitSuite {
	checks := g.Checks
	if len(checks) == 0 {
		// A suite without cases is green on every build server; an empty group must not be.
		checks = []verdict.Check{verdict.Undecided("checks", "at least one check", "none", "")}
	}
	n := tally(checks)
	suite := junitSuite{Name: Escape(g.Name), Tests: len(checks), Failures: n.fail, Errors: n.unknown}
	for _, c := range checks {
		entry := junitCase{Name: Escape(c.Name), Class: Escape(g.ID)}
		fault := &junitFault{
			Message: "expected " + shown(c.Expected) + ", saw " + shown(c.Seen),
			Type:    string(outcomeOf(c)),
			Text:    Escape(c.Hint),
		}
		switch outcomeOf(c) {
		case verdict.Pass:
		case verdict.Fail:
			entry.Failure = fault
		default:
			entry.Error = fault
		}
		suite.Cases = append(suite.Cases, entry)
	}
	return suite
}
