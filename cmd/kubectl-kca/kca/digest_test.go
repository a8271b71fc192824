package kca

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestDigestWantsARegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, file, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	l := newLearner(t, &apiServer{url: "http://127.0.0.1:1"})
	stuck := time.AfterFunc(20*time.Second, func() { panic("digest waits for the writer of a pipe") })
	defer stuck.Stop()
	l.run("digest", pipe).want(2, "expected a regular file, saw a named pipe")
	l.run("digest", dir).want(2, "expected a regular file, saw a folder")
	l.run("digest", filepath.Join(dir, "none")).want(2, "no such file")
	l.run("digest", link).want(0, "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862")
}
