package evidence

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// childVariable makes the test binary play the part of another kubectl plugin process.
const childVariable = "EVIDENCE_TEST_CHILD"

func TestMain(m *testing.M) {
	part := os.Getenv(childVariable)
	if part == "" {
		m.Run()
		return
	}
	if err := playChild(part, os.Args[1], os.Args[2:]); err != nil {
		fmt.Println("error:", err)
	}
}

// playChild says "ready" when it has done what the parent waits for.
func playChild(part, home string, args []string) error {
	s, err := Open(home, "lab")
	if err != nil {
		return err
	}
	switch part {
	case "die at step":
		return dieAtStep(s, args[0], args[1])
	case "create until killed":
		fmt.Println("ready")
		for i := 0; ; i++ {
			name := fmt.Sprintf("evidence/%s-%06d.json", args[0], i)
			if err := s.Create(name, pattern(i)); err != nil {
				return err
			}
		}
	case "replace until killed":
		fmt.Println("ready")
		for i := 0; ; i++ {
			if err := s.Replace("lab.json", pattern(i)); err != nil {
				return err
			}
		}
	case "lock":
		if _, err := s.Lock(); err != nil {
			return err
		}
		fmt.Println("ready")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case "append":
		log, err := s.OpenRaw(5)
		if err != nil {
			return err
		}
		for i := range 100 {
			if err := log.Append("sample", i); err != nil {
				return err
			}
		}
		fmt.Println("ready")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}
	return fmt.Errorf("no part %q", part)
}

// dieAtStep runs one operation and kills this process before its n-th step.
func dieAtStep(s *Store, operation, n string) error {
	left, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	s.step = func(string) error {
		if left--; left == 0 {
			killSelf()
		}
		return nil
	}
	switch operation {
	case "create":
		return s.Create("evidence/01.json", pattern(1))
	case "replace":
		return s.Replace("lab.json", pattern(1))
	default:
		_, err := s.Archive(time.Unix(0, 0))
		return err
	}
}

func killSelf() {
	us, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = us.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal may take a moment
}

// pattern is a file of many pages that says itself whether it is whole.
func pattern(i int) []byte {
	word := fmt.Sprintf("%08d", i)
	return []byte("[\"" + strings.Repeat(word, 8192) + "\"]")
}

// assertWhole checks a file that pattern made.
func assertWhole(t *testing.T, name string, data []byte) {
	t.Helper()
	if len(data) < 10 {
		t.Errorf("%s has only %d bytes", name, len(data))
		return
	}
	i, err := strconv.Atoi(string(data[2:10]))
	if err != nil || !bytes.Equal(data, pattern(i)) {
		t.Errorf("%s is not whole: %d bytes beginning with %q", name, len(data), data[:10])
	}
}

type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin io.WriteCloser
}

func startChild(t *testing.T, part, home string, args ...string) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{home}, args...)...)
	cmd.Env = append(os.Environ(), childVariable+"="+part)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{cmd, bufio.NewScanner(stdout), stdin}
}

func (c *child) awaitReady(t *testing.T) {
	t.Helper()
	if !c.lines.Scan() || c.lines.Text() != "ready" {
		t.Fatalf("child said %q, want ready", c.lines.Text())
	}
}

// kill ends the child at once and waits until it is gone.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
}
