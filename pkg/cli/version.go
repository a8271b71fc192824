package cli

import (
	"runtime"
	"runtime/debug"
)

const modulePath = "kube-lab.dev/kube-lab"

// Set at link time: -ldflags "-X kube-lab.dev/kube-lab/pkg/cli.version=v1.2.3 …".
var (
	version string
	commit  string
	date    string
)

// VersionInfo says which build this is.
type VersionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"` // of the commit, RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"` // GOOS/GOARCH
}

// Version is the version stamped at link time, or else what the Go tool recorded about the build
// (as with `go install …@v1.2.3`).
func Version() VersionInfo {
	v := VersionInfo{
		Version: version, Commit: commit, Date: date,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if v.Version != "" {
		return v
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		v.fill(build)
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "v0.0.0-dev"
	}
	return v
}

func (v *VersionInfo) fill(build *debug.BuildInfo) {
	v.Version = build.Main.Version
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Date = s.Value
		}
	}
}
