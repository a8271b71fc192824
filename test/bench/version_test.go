// Package bench measures the plugins against the tools a user would otherwise type, side by side in
// one run and as a ratio of medians. Run it with `make bench`.
package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// rounds is how often each program runs for one median.
const rounds = 10

// BenchmarkVersion starts both programs in turn and reports the medians in milliseconds and their
// ratio. The programs are called directly, as a shell or kubectl itself would exec them.
func BenchmarkVersion(b *testing.B) {
	kubectl, bin := os.Getenv("KUBE_LAB_E2E_KUBECTL"), os.Getenv("KUBE_LAB_E2E_BIN")
	if kubectl == "" || bin == "" {
		b.Skip("KUBE_LAB_E2E_KUBECTL and KUBE_LAB_E2E_BIN name the programs to compare: `make bench` sets them")
	}
	kca := filepath.Join(bin, "kubectl-kca")
	wall(b, kubectl) // both in the page cache before the first round
	wall(b, kca)
	var ours, theirs []time.Duration
	for b.Loop() {
		ours, theirs = ours[:0], theirs[:0]
		for range rounds {
			theirs = append(theirs, wall(b, kubectl))
			ours = append(ours, wall(b, kca))
		}
	}
	b.ReportMetric(milliseconds(median(ours)), "kca-ms")
	b.ReportMetric(milliseconds(median(theirs)), "kubectl-ms")
	b.ReportMetric(median(ours).Seconds()/median(theirs).Seconds(), "ratio")
}

// wall is the time from exec to exit of `PROGRAM version --client`.
func wall(b *testing.B, program string) time.Duration {
	b.Helper()
	cmd := exec.Command(program, "version", "--client")
	cmd.Env = []string{"HOME=" + b.TempDir(), "PATH=" + os.Getenv("PATH")}
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v: %s", program, err, out)
	}
	return time.Since(began)
}

func median(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
