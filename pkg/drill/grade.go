package drill

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kube-lab.dev/kube-lab/pkg/strictjson"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// File is one file of the lab folder. Problem says why it could not be read; a File with neither is
// one that does not exist.
type File struct {
	Data    []byte
	Problem string
}

func (f File) missing() bool { return f.Problem == "" && len(f.Data) == 0 }

// Material is everything that grading looks at. Files are named as in the lab folder: the learner's
// inputs by InputOf, evidence by EvidenceFile, raw observations by RawFile.
type Material struct {
	Lab   Lab
	Files map[string]File
}

// Grade judges one step from the inputs and the evidence alone, so it gives the same answer
// everywhere. It fails what is missing, wrong or edited, and leaves unknown what cannot be read. What
// it cannot notice is a whole that was made to fit: a rebuilt chain of evidence with its raw files.
// The newest record has no link on top of it, so there only the raw file speaks against an edit.
func Grade(m Material, step int) []verdict.Check {
	if step < 1 || step > Acts {
		return []verdict.Check{verdict.Undecided("step", fmt.Sprintf("1 to %d", Acts), fmt.Sprint(step), "Give the number of a step.")}
	}
	g := &grader{m: m, step: step, records: map[int]Record{}, digests: map[int]string{}, facts: map[int]any{}}
	g.hint = editedHint
	if !g.load() {
		return g.checks
	}
	g.rules()
	g.observed()
	return g.checks
}

// rules judges evidence that was read, without what the act noted while it ran.
func (g *grader) rules() {
	g.envelope()
	g.bound()
	g.chain()
	g.input()
	g.raw()
	g.judge()
}

const editedHint = "Evidence and inputs are kept as the acts left them: put the original file back, or run `kubectl kca reset` and start over in a new lab."

// grader is the grading of one step.
type grader struct {
	findings
	m       Material
	step    int
	records map[int]Record
	digests map[int]string
	facts   map[int]any // of the acts, as far as they were decoded
}

// hinted sets the next step for the checks that follow, and returns the grader's own to set back.
func (g *grader) hinted(hint string) func() {
	before := g.hint
	g.hint = hint
	return func() { g.hint = before }
}

// load reads the evidence of this step and of those before, and says whether there is anything to
// judge.
func (g *grader) load() bool {
	ok := true
	for act := 1; act <= g.step; act++ {
		ok = g.loadOne(act) && ok
	}
	return ok
}

func (g *grader) loadOne(act int) bool {
	name := EvidenceFile(act)
	file := g.m.Files[name]
	ifMissing := fmt.Sprintf("Run `kubectl kca act %d`.", act)
	if !g.m.Files[RawFile(act)].missing() {
		ifMissing = fmt.Sprintf("Act %d was interrupted: keep %s, run `kubectl kca rescue` and `kubectl kca reset`, and start over in a new lab.", act, RawFile(act))
	}
	if !g.readable(name, file, ifMissing) {
		return false
	}
	digest, err := strictjson.Digest(file.Data)
	if err != nil {
		g.unknown(name, "evidence in JSON", errorText(err))
		return false
	}
	record, err := DecodeRecord(name, file.Data)
	if err != nil {
		g.that(false, name, "complete evidence", errorText(err))
		return false
	}
	g.records[act], g.digests[act] = record, digest
	return true
}

// readable adds a check about a file that is missing or could not be read.
func (g *grader) readable(name string, file File, ifMissing string) bool {
	switch {
	case file.missing():
		defer g.hinted(ifMissing)()
		g.that(false, name, "the file", "no such file, or an empty one")
		return false
	case file.Problem != "":
		defer g.hinted("Make the file readable again and grade once more.")()
		g.unknown(name, "a readable file", file.Problem)
		return false
	default:
		return true
	}
}

// errorText is an error of strictjson without the file name, which the check carries already.
func errorText(err error) string {
	var e *strictjson.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	bare := *e
	bare.File = ""
	return bare.Error()
}

// envelope judges what every record says about itself.
func (g *grader) envelope() {
	r := g.records[g.step]
	g.same("schema", EvidenceSchema, r.Schema)
	g.same("lab", g.m.Lab.Name, r.Lab)
	g.equal("act", int64(g.step), int64(r.Act))
	g.that(r.Tool.Version != "", "tool", "its version", r.Tool.Version)
	c := r.Cluster
	g.that(c.ServerVersion != "" && c.KyvernoVersion != "", "versions", "of the server and of Kyverno", strings.TrimSpace(c.ServerVersion+" "+c.KyvernoVersion))
	g.that(c.KubeSystemUID != "" && c.NodeUID != "", "cluster", "UIDs of kube-system and the node", strings.TrimSpace(c.KubeSystemUID+" "+c.NodeUID))
	g.add(namespaceChecks("cluster namespaces", g.m.Lab, c.Namespaces, c.Namespaces)...)
}

// input judges that the learner's file is still the one the act read.
func (g *grader) input() {
	name, recorded := InputOf(g.step), g.records[g.step].Inputs
	if name == "" {
		g.that(len(recorded) == 0, "inputs", "none", strings.Join(slices.Sorted(maps.Keys(recorded)), ", "))
		return
	}
	g.that(len(recorded) == 1 && isDigest(recorded[name]), "inputs", name+" and its digest", strings.Join(slices.Sorted(maps.Keys(recorded)), ", "))
	file := g.m.Files[name]
	if !g.readable(name, file, fmt.Sprintf("Put %s back as it was when act %d read it.", name, g.step)) {
		return
	}
	digest, err := strictjson.Digest(file.Data)
	if err != nil {
		g.unknown(name, "JSON", errorText(err))
		return
	}
	defer g.hinted(fmt.Sprintf("%s was edited after act %d: put the old content back, or run `kubectl kca reset` and start over in a new lab.", name, g.step))()
	g.same(name+" unchanged", recorded[name], digest)
}

// mayBeWithoutRaw says whether an act changes nothing that it would have to keep raw observations of.
func mayBeWithoutRaw(act int) bool { return act == 1 || act == 4 || act == 8 }

// raw judges that the raw observations are those the evidence was made from.
func (g *grader) raw() {
	name, recorded := RawFile(g.step), g.records[g.step].RawSHA256
	file := g.m.Files[name]
	if recorded == "" && mayBeWithoutRaw(g.step) {
		g.unless(!file.missing(), name, "none, as the evidence says", "a file that the evidence does not know")
		return
	}
	g.that(isDigest(recorded), "raw digest", "a SHA-256", recorded)
	if !g.readable(name, file, "Put the raw file back: it belongs to the evidence.") {
		return
	}
	sum := sha256.Sum256(file.Data)
	g.same(name+" unchanged", recorded, hex.EncodeToString(sum[:]))
}
