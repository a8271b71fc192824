package drill

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"kube-lab.dev/kube-lab/pkg/strictjson"
)

// chain judges the links from act 1 to this step, and those after it where they exist: an edited
// record shows in whatever was written on top of it.
func (g *grader) chain() {
	for act := 1; act <= g.step; act++ {
		g.link(act)
	}
	g.linksAfter()
	g.times()
}

func (g *grader) link(act int) {
	r := g.records[act]
	name := fmt.Sprintf("link of %02d.json", act)
	if act == 1 {
		g.that(r.PreviousSHA256 == "", name, "none before act 1", r.PreviousSHA256)
	} else {
		g.that(r.PreviousSHA256 == g.digests[act-1], name, "the digest of "+linkName(act-1)+", "+g.digests[act-1], r.PreviousSHA256)
	}
	if act == g.step {
		return
	}
	// The later acts stand on these facts, so a record of another lab or act must not pass for them.
	g.that(r.Schema == EvidenceSchema && r.Lab == g.m.Lab.Name && r.Lab != "" && r.Act == act, fmt.Sprintf("record %02d.json", act),
		fmt.Sprintf("act %d of lab %s", act, g.m.Lab.Name), fmt.Sprintf("act %d of lab %s", r.Act, orNothing(r.Lab)))
	here, there := g.records[g.step].Cluster, r.Cluster
	g.that(here.KubeSystemUID == there.KubeSystemUID && here.NodeUID == there.NodeUID && maps.Equal(here.Namespaces, there.Namespaces),
		fmt.Sprintf("cluster of %02d.json", act), "the same cluster, node and namespaces as in this step", there.KubeSystemUID+" "+there.NodeUID)
	defer g.hinted(otherSurroundings)()
	g.that(here.ServerVersion == there.ServerVersion && here.KyvernoVersion == there.KyvernoVersion,
		fmt.Sprintf("versions of %02d.json", act), here.ServerVersion+" "+here.KyvernoVersion, there.ServerVersion+" "+there.KyvernoVersion)
}

// linksAfter judges the links of everything that was written later: records that were put on top of
// an edited one are found in each step below them.
func (g *grader) linksAfter() {
	before, known := g.digests[g.step], true
	for act := g.step + 1; act <= Acts; act++ {
		file := g.m.Files[EvidenceFile(act)]
		if file.missing() {
			known = false // what follows a gap stands on something that is not there
			continue
		}
		name, expected := fmt.Sprintf("link of %02d.json", act), "the digest of "+linkName(act-1)
		record, digest, err := readLater(act, file)
		switch {
		case err != nil:
			g.unknown(name, expected, errorText(err))
			return
		case !known:
			g.that(false, name, expected, "no "+linkName(act-1))
			return
		}
		g.that(record.PreviousSHA256 == before, name, expected+", "+before, record.PreviousSHA256)
		g.namedBy(act)
		before = digest
	}
}

// readLater reads a record above the step that is graded, and its digest.
func readLater(act int, file File) (Record, string, error) {
	if file.Problem != "" {
		return Record{}, "", errors.New(file.Problem)
	}
	digest, err := strictjson.Digest(file.Data)
	if err != nil {
		return Record{}, "", err
	}
	record, err := DecodeRecord(EvidenceFile(act), file.Data)
	return record, digest, err
}

// namedBy judges the digest by which the learner's file of a later act that is done names this
// step's evidence.
func (g *grader) namedBy(act int) {
	name := InputOf(act)
	file := g.m.Files[name]
	field := digestField(act, g.step)
	if field == "" || file.missing() {
		return // a missing file is for the grade of its own step
	}
	title, expected := name+" /"+field, "the digest of "+linkName(g.step)
	var fields map[string]any
	if file.Problem != "" {
		g.unknown(title, expected, file.Problem)
	} else if err := json.Unmarshal(file.Data, &fields); err != nil {
		g.unknown(title, expected, "no JSON object")
	} else {
		named, _ := fields[field].(string)
		g.that(named == g.digests[g.step], title, expected+", "+g.digests[g.step], named)
	}
}

// digestField is the field in the learner's file of an act that holds the digest of an earlier
// step's evidence; "" when there is none.
func digestField(act, step int) string {
	return map[[2]int]string{
		{4, 3}: "evidence_sha256", {7, 6}: "ignore_evidence_sha256",
		{8, 5}: "fail_evidence_sha256", {8, 6}: "ignore_evidence_sha256", {8, 7}: "recovery_evidence_sha256",
	}[[2]int{act, step}]
}

// otherSurroundings is the next step when no file has to be wrong: a clock was set back, or the
// cluster was upgraded between two acts.
const otherSurroundings = "The acts of one lab belong to one cluster at one version and follow each other in time: keep the files, run `kubectl kca reset` and start over in a new lab."

// times judges that every act ended after it began and after the one before.
func (g *grader) times() {
	defer g.hinted(otherSurroundings)()
	var before time.Time
	for act := 1; act <= g.step; act++ {
		r := g.records[act]
		started, okStart := utcTime(r.StartedAt)
		finished, okFinish := utcTime(r.FinishedAt)
		g.that(okStart && okFinish && !finished.Before(started) && !started.Before(before), fmt.Sprintf("times of %02d.json", act),
			"RFC 3339 in UTC, growing from act to act", r.StartedAt+" to "+r.FinishedAt)
		before = finished
	}
}

func utcTime(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil && strings.HasSuffix(s, "Z")
}
