package drill

import (
	"fmt"
	"testing"

	"kube-lab.dev/kube-lab/pkg/verdict"
)

func TestGradeWantsTheEvidenceOfThisLab(t *testing.T) {
	bind := func(system, target, control string) []byte {
		return fmt.Appendf(nil, `{"schema":"kube-lab.dev/kca/lab/v1","kube_system_uid":%q,"namespaces":{"kca-webhook-target":%q,"kca-webhook-control":%q}}`, system, target, control)
	}
	for name, c := range map[string]struct {
		file File
		want verdict.Outcome
	}{
		"no lab.json":            {File{}, verdict.Pass},
		"this lab":               {File{Data: bind(kubeSystemUID, targetUID, controlUID)}, verdict.Pass},
		"another cluster":        {File{Data: bind(nodeUID, targetUID, controlUID)}, verdict.Fail},
		"another target":         {File{Data: bind(kubeSystemUID, nodeUID, controlUID)}, verdict.Fail},
		"another control":        {File{Data: bind(kubeSystemUID, targetUID, nodeUID)}, verdict.Fail},
		"an empty object":        {File{Data: []byte(`{}`)}, verdict.Fail},
		"null":                   {File{Data: []byte(`null`)}, verdict.Fail},
		"not readable":           {File{Problem: "permission denied"}, verdict.Unknown},
		"half a file":            {File{Data: []byte(`{"schema":`)}, verdict.Unknown},
		"a UID of another type":  {File{Data: []byte(`{"kube_system_uid":1}`)}, verdict.Unknown},
		"two values for one key": {File{Data: []byte(`{"kube_system_uid":"a","kube_system_uid":"b"}`)}, verdict.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			m := reference(t).material(t)
			m.Files[BindingFile] = c.file
			for step := 1; step <= Acts; step++ {
				if got := Grade(m, step); verdict.Fold(got) != c.want {
					t.Errorf("step %d is %s, want %s: %q", step, verdict.Fold(got), c.want, failing(got))
				}
			}
		})
	}
}
