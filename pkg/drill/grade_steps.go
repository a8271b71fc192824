package drill

import (
	"errors"
	"fmt"
	"maps"
)

// judge decodes the facts that a step stands on and applies its rules.
func (g *grader) judge() {
	switch g.step {
	case 1:
		g.judge1()
	case 2:
		g.judge2()
	case 3:
		g.judge3()
	case 4:
		g.judge4()
	case 5:
		g.judge5()
	case 6:
		g.judge6()
	case 7:
		g.judge7()
	case 8:
		g.judge8()
	}
}

// factsOf decodes the facts of one act, once, or adds a check that they are not those.
func factsOf[T any](g *grader, act int) (T, bool) {
	if read, ok := g.facts[act].(T); ok {
		return read, true
	}
	facts, err := DecodeFacts[T](g.records[act])
	if err == nil {
		g.facts[act] = facts
	} else {
		g.that(false, fmt.Sprintf("facts of %02d.json", act), fmt.Sprintf("the facts of act %d", act), errorText(err))
	}
	return facts, err == nil
}

// parsed adds what reading an input file gave: the wrong fields one by one, or one check.
func (g *grader) parsed(name string, err error) bool {
	var wrong *Wrong
	switch {
	case errors.As(err, &wrong):
		for _, p := range wrong.Problems {
			p.Name = name + " " + p.Name
			g.add(p)
		}
	case err != nil:
		g.unknown(name, "a well-formed file", errorText(err))
	default:
		g.that(true, name, "as the act asks", "as the act asks")
	}
	return err == nil
}

// recorded compares what an act recorded of an input with the input.
func (g *grader) recorded(name string, file, fact any) {
	g.same(name+" in the facts", asJSON(file), asJSON(fact))
}

func (g *grader) data(name string) []byte { return g.m.Files[name].Data }

func (g *grader) judge1() {
	one, ok := factsOf[Act1Facts](g, 1)
	if !ok {
		return
	}
	scope, err := ParseScope(g.m.Lab, g.data(scopeFile), one.Inspection)
	if g.parsed(scopeFile, err) {
		g.recorded(scopeFile, scope, one.Scope)
	}
	c := g.records[1].Cluster
	g.same("node of the record", one.VM.NodeUID, c.NodeUID)
	g.that(len(c.Namespaces) > 0 && maps.Equal(one.Inspection.Namespaces, c.Namespaces), "namespaces of the record", asJSON(one.Inspection.Namespaces), asJSON(c.Namespaces))
	g.add(JudgeAct1(g.m.Lab, one)...)
}

func (g *grader) judge2() {
	two, ok := factsOf[Act2Facts](g, 2)
	if !ok {
		return
	}
	_, err := ParsePolicy(g.m.Lab, g.data(policyJSON))
	g.parsed(policyJSON, err)
	g.add(JudgeAct2(g.m.Lab, two)...)
}

func (g *grader) judge3() {
	two, ok2 := factsOf[Act2Facts](g, 2)
	three, ok3 := factsOf[Act3Facts](g, 3)
	if ok2 && ok3 {
		g.add(JudgeAct3(g.m.Lab, three, two)...)
	}
}

func (g *grader) judge4() {
	one, ok1 := factsOf[Act1Facts](g, 1)
	two, ok2 := factsOf[Act2Facts](g, 2)
	four, ok4 := factsOf[Act4Facts](g, 4)
	if !ok1 || !ok2 || !ok4 {
		return
	}
	plan, err := ParsePlan(g.m.Lab, g.data(planFile), one.VM.NodeUID, one.Inspection.Deployment.UID, g.digests[3])
	if g.parsed(planFile, err) {
		g.recorded(planFile, plan, four.Plan)
	}
	g.add(JudgeAct4(g.m.Lab, four, one, two)...)
}

func (g *grader) judge5() {
	two, ok2 := factsOf[Act2Facts](g, 2)
	three, ok3 := factsOf[Act3Facts](g, 3)
	four, ok4 := factsOf[Act4Facts](g, 4)
	five, ok5 := factsOf[Act5Facts](g, 5)
	if ok2 && ok3 && ok4 && ok5 {
		g.add(JudgeAct5(g.m.Lab, five, two, three, four)...)
	}
}

func (g *grader) judge6() {
	two, ok2 := factsOf[Act2Facts](g, 2)
	three, ok3 := factsOf[Act3Facts](g, 3)
	four, ok4 := factsOf[Act4Facts](g, 4)
	five, ok5 := factsOf[Act5Facts](g, 5)
	six, ok6 := factsOf[Act6Facts](g, 6)
	_, err := ParsePolicyIgnore(g.m.Lab, g.data(policyIgnoreJSON), g.data(policyJSON))
	g.parsed(policyIgnoreJSON, err)
	if ok2 && ok3 && ok4 && ok5 && ok6 {
		g.add(JudgeAct6(g.m.Lab, six, two, three, four, five)...)
	}
}

func (g *grader) judge7() {
	two, ok2 := factsOf[Act2Facts](g, 2)
	three, ok3 := factsOf[Act3Facts](g, 3)
	five, ok5 := factsOf[Act5Facts](g, 5)
	six, ok6 := factsOf[Act6Facts](g, 6)
	seven, ok7 := factsOf[Act7Facts](g, 7)
	if !ok2 || !ok3 || !ok5 || !ok6 || !ok7 {
		return
	}
	uid, err := PolicyUID(two.Policy)
	if err != nil {
		g.that(false, "policy UID", "a UID in 02.json", err.Error())
		return
	}
	recovery, err := ParseRecovery(g.m.Lab, g.data(recoveryFile), uid, g.digests[6])
	if g.parsed(recoveryFile, err) {
		g.recorded(recoveryFile, recovery, seven.Recovery)
	}
	g.add(JudgeAct7(g.m.Lab, seven, two, three, five, six)...)
}

func (g *grader) judge8() {
	eight, ok := factsOf[Act8Facts](g, 8)
	if !ok {
		return
	}
	report, err := ParseReport(g.m.Lab, g.data(reportFile), g.digests[5], g.digests[6], g.digests[7])
	if g.parsed(reportFile, err) {
		g.recorded(reportFile, report, eight.Report)
	}
	for _, act := range linked {
		g.same("link to "+linkName(act)+" in the facts", g.digests[act], eight.Links[linkName(act)])
	}
	g.add(JudgeAct8(g.m.Lab, eight)...)
}
