package drill

import (
	"strings"
	"testing"
)

// What differs in nothing that prints is quoted, so that a learner sees it.
func TestWrongStringsAreVisible(t *testing.T) {
	for seen, want := range map[string]string{
		"Ignore ":      `"Ignore "`,
		"\u00a0Ignore": `"\u00a0Ignore"`,
		"Ign\u200bore": `"Ign\u200bore"`,
		"Ignore\n":     `"Ignore\n"`,
		"ignore":       "ignore",
		"":             nothing,
	} {
		var f findings
		f.same("/mode", "Ignore", seen)
		if got := f.checks[0]; got.Seen != want || got.Expected != "Ignore" {
			t.Errorf("%q is shown as %s, expected as %s", seen, got.Seen, got.Expected)
		}
	}
	_, err := ParseRecovery(Freeze(), []byte(`{"mode":"Ignore ","healthy_bad":"explicit-deny","existing":"same-uid-running","policy_uid":"p","ignore_evidence_sha256":"`+caDigest+`"}`), "p", caDigest)
	if err == nil || !strings.Contains(err.Error(), `saw "Ignore "`) {
		t.Errorf("error %v", err)
	}
}
