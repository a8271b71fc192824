package freeze

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoWallClock covers F-05 at its root: nothing in the engine reads the wall
// clock, so setting it back changes no freeze. Only bootNow tells the time.
func TestNoWallClock(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source files: %v", err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"time.Now", "time.Since", "time.Until", "CLOCK_REALTIME", "CLOCK_MONOTONIC)"} {
			if strings.Contains(string(b), call) {
				t.Errorf("%s uses %s", name, call)
			}
		}
	}
}

func TestBootClockAdvances(t *testing.T) {
	a := bootNow()
	if b := bootNow(); a <= 0 || b < a {
		t.Errorf("read %s, then %s", a, b)
	}
}
