package drill

import "github.com/go-json-experiment/json"

// BindingFile is what init wrote about the cluster that the lab belongs to.
const BindingFile = "lab.json"

// bound judges that the evidence was made on the cluster that this lab folder is bound to: evidence
// of another lab is complete and chained, and says nothing about this one. Without the file nothing
// is compared, because a grader may have got the evidence alone.
func (g *grader) bound() {
	file := g.m.Files[BindingFile]
	if file.missing() {
		return
	}
	defer g.hinted("This evidence belongs to another lab: put the lab's own files back, or run `kubectl kca reset` and start over in a new lab.")()
	if file.Problem != "" {
		g.unknown(BindingFile, "a readable file", file.Problem)
		return
	}
	// As much of the file as the evidence can be compared with.
	var bind struct {
		KubeSystemUID string            `json:"kube_system_uid"`
		Namespaces    map[string]string `json:"namespaces"`
	}
	if err := json.Unmarshal(file.Data, &bind); err != nil {
		g.unknown(BindingFile, "what init wrote", "no JSON of that form")
		return
	}
	c := g.records[g.step].Cluster
	g.same(BindingFile+": UID of kube-system", bind.KubeSystemUID, c.KubeSystemUID)
	for _, name := range []string{g.m.Lab.Target, g.m.Lab.Control} {
		g.same(BindingFile+": UID of "+name, bind.Namespaces[name], c.Namespaces[name])
	}
}
