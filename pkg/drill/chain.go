package drill

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// chain judges the links from act 1 to this step, and the link after it where that exists: an
// edited record shows in whatever was written on top of it.
func (g *grader) chain() {
	for act := 1; act <= g.step; act++ {
		g.link(act)
	}
	g.linkAfter()
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
	g.that(here.ServerVersion == there.ServerVersion && here.KyvernoVersion == there.KyvernoVersion,
		fmt.Sprintf("versions of %02d.json", act), here.ServerVersion+" "+here.KyvernoVersion, there.ServerVersion+" "+there.KyvernoVersion)
}

func (g *grader) linkAfter() {
	next := g.step + 1
	file := g.m.Files[EvidenceFile(next)]
	if next > Acts || file.missing() {
		return
	}
	name := fmt.Sprintf("link of %02d.json", next)
	if file.Problem != "" {
		g.unknown(name, "the digest of this step's evidence", file.Problem)
		return
	}
	record, err := DecodeRecord(EvidenceFile(next), file.Data)
	if err != nil {
		g.unknown(name, "the digest of this step's evidence", errorText(err))
		return
	}
	g.that(record.PreviousSHA256 == g.digests[g.step], name, "the digest of "+linkName(g.step)+", "+g.digests[g.step], record.PreviousSHA256)
}

// times judges that every act ended after it began and after the one before.
func (g *grader) times() {
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
