package drill

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kube-lab.dev/kube-lab/pkg/strictjson"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// Kinds of raw observations that grading looks for.
const (
	rawJudged   = "judged" // the checks that refused an act's own facts
	rawSample   = "sample"
	rawExisting = "existing"
	rawPolicy   = "policy"
	rawEntry    = "registration"
)

// rawLine is one line of a raw file, as pkg/evidence writes it.
type rawLine struct {
	Kind string         `json:"kind"`
	At   string         `json:"at"`
	Data jsontext.Value `json:"data"`
}

// observed judges that the facts are what the act noted while it ran, and that it did not itself
// judge them insufficient: a record that is written for an act that failed has no such lines.
func (g *grader) observed() {
	name := RawFile(g.step)
	file := g.m.Files[name]
	if file.missing() || file.Problem != "" {
		return // the digest of the raw file has said so
	}
	defer g.hinted(startOver)()
	lines, err := rawLines(name, file.Data)
	if err != nil {
		g.that(false, name+": lines", "one observation in JSON on each", errorText(err))
		return
	}
	g.faults(name+": verdict of the act", "none that refuses its facts", "none", refusals(lines))
	if facts, ok := g.facts[g.step]; ok {
		g.noted(name, observations(facts), lines)
	}
}

// noted judges that every observation is a line of the raw file.
func (g *grader) noted(name string, wanted []observation, lines []rawLine) {
	seen := map[[2]string]bool{}
	for _, l := range lines {
		seen[[2]string{l.Kind, canonical(l.Data)}] = true
	}
	var missing []string
	for _, o := range wanted {
		data := canonical(jsontext.Value(asJSON(o.data)))
		if data == "" || !seen[[2]string{o.kind, data}] {
			missing = append(missing, "no line for "+o.what)
		}
	}
	if len(wanted) == 0 {
		missing = []string{"the facts rest on nothing"}
	}
	g.faults(name+": observations", "each one that the facts rest on", fmt.Sprintf("all %d", len(wanted)), missing)
}

// rawLines reads a raw file strictly. Its digest is in the record, so a torn line is none of the act's.
func rawLines(name string, data []byte) ([]rawLine, error) {
	var lines []rawLine
	for text := range bytes.Lines(data) {
		line, err := strictjson.Decode[rawLine](name, text)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// refusals names the first problem of each judgement by which an act refused its own facts.
func refusals(lines []rawLine) []string {
	var faults []string
	for _, l := range lines {
		if l.Kind != rawJudged {
			continue
		}
		var checks []verdict.Check
		if err := json.Unmarshal(l.Data, &checks); err != nil || len(checks) == 0 {
			faults = append(faults, "a judgement that cannot be read")
			continue
		}
		if rest := notPassed(checks); len(rest) > 0 {
			faults = append(faults, strings.TrimSpace(rest[0].Name+" "+rest[0].Seen))
		}
	}
	return faults
}

// observation is one thing that an act noted under a kind when it saw it.
type observation struct {
	what, kind string
	data       any
}

func samplesNoted(samples ...Sample) []observation {
	var all []observation
	for _, s := range samples {
		all = append(all, observation{"request " + orNothing(s.Name), rawSample, s})
	}
	return all
}

// observations lists what the facts of an act rest on; nothing for an act that keeps no raw file.
func observations(facts any) []observation {
	switch f := facts.(type) {
	case Act2Facts:
		return append(samplesNoted(f.Canary...), observation{"the policy", rawPolicy, f.Policy}, observation{"the registration", rawEntry, f.Webhook})
	case Act3Facts:
		return append(samplesNoted(f.Good, f.Bad), observation{"the running Pod", rawExisting, f.Existing})
	case Act5Facts:
		all := samplesNoted(append(f.During.samples(), f.After.All...)...)
		return append(all, windowNoted(f.Freeze, f.Registration, f.Container, f.Existing, f.Witness)...)
	case Act6Facts:
		all := samplesNoted(append(append(f.During.samples(), f.Before.All...), f.After.All...)...)
		all = append(all, observation{"the policy", rawPolicy, f.Policy})
		return append(all, windowNoted(f.Freeze, f.Registration, f.Container, f.Existing, f.Witness)...)
	case Act7Facts:
		return append(samplesNoted(f.Bad), observation{"the healthy state", "healthy", f})
	default:
		return nil
	}
}

func windowNoted(z FreezeFact, p Phases, c ContainerPair, e Existing, w Witness) []observation {
	return []observation{
		{"the freeze", "freeze", z}, {"the registration at three moments", rawEntry, p}, {"the container", "container", c},
		{"the running Pod", rawExisting, e}, {"the API server's counters", "witness", w},
	}
}
