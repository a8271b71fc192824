package freeze

import (
	"errors"
	"strconv"
	"testing"
)

// TestConfirm changes one part at a time; every change must refuse.
func TestConfirm(t *testing.T) {
	id := validIdentity()
	id.StartTicks = "1234567"
	here := place{containerID: testID, podUID: testUID}
	good := process{pid: 4242, ppid: 77, comm: "kyverno", state: "S", startTicks: 1234567, nspids: []uint64{4242, 1}, place: here}
	tests := map[string]struct {
		boot   string
		change func(*process)
		parent place
		gone   bool
		pass   bool
	}{
		"same process":                         {pass: true},
		"parent in another container":          {parent: place{containerID: otherID, podUID: testUID}, pass: true},
		"any name is fine":                     {change: func(p *process) { p.comm = "a) S 1 (b" }, pass: true},
		"one tick later (P-13)":                {change: func(p *process) { p.startTicks++ }, gone: true},
		"one tick earlier (P-13)":              {change: func(p *process) { p.startTicks-- }, gone: true},
		"ticks beyond float precision differ":  {change: func(p *process) { p.startTicks = 1<<53 + 1 }, gone: true},
		"other number":                         {change: func(p *process) { p.pid = 4243 }, gone: true},
		"zombie":                               {change: func(p *process) { p.state = "Z" }, gone: true},
		"dead":                                 {change: func(p *process) { p.state = "X" }, gone: true},
		"other boot":                           {boot: "another", gone: true},
		"unknown boot is not another boot":     {boot: "-"},
		"other container":                      {change: func(p *process) { p.place.containerID = otherID }},
		"no container":                         {change: func(p *process) { p.place = place{} }},
		"other Pod, same container id":         {change: func(p *process) { p.place.podUID = "11111111-4e5f-6071-8293-a4b5c6d7e8f9" }},
		"child of the main process":            {parent: here},
		"pause process":                        {change: func(p *process) { p.comm = "pause" }},
		"right name, wrong container (P-01)":   {change: func(p *process) { p.place = place{containerID: otherID, podUID: testUID} }},
		"right name, one tick off, no sibling": {change: func(p *process) { p.comm, p.startTicks = "kyverno", 1 }, gone: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, boot := good, tc.boot
			if tc.change != nil {
				tc.change(&p)
			}
			switch boot {
			case "":
				boot = id.BootID
			case "-":
				boot = ""
			}
			err := confirm(id, boot, p, tc.parent)
			if (err == nil) != tc.pass || errors.Is(err, ErrGone) != tc.gone {
				t.Errorf("got %v, want pass %v, gone %v", err, tc.pass, tc.gone)
			}
		})
	}
}

func TestConfirmRefusesProcessOne(t *testing.T) {
	if err := confirmMain(process{pid: 1, comm: "systemd"}, place{}); err == nil {
		t.Error("process 1 was accepted")
	}
}

func TestMainProcess(t *testing.T) {
	proc := func(pid, ppid int, nspids ...uint64) process {
		return process{pid: pid, ppid: ppid, nspids: append([]uint64{uint64(pid)}, nspids...)}
	}
	tests := map[string]struct {
		members []process
		want    int // 0: refused
	}{
		"alone":                              {members: []process{proc(10, 2, 1)}, want: 10},
		"with children":                      {members: []process{proc(12, 11, 8), proc(10, 2, 1), proc(11, 10, 7)}, want: 10},
		"with kubectl exec":                  {members: []process{proc(30, 2, 9), proc(10, 2, 1), proc(31, 30, 10)}, want: 10},
		"shared process namespace":           {members: []process{proc(10, 2, 6), proc(11, 10, 7)}, want: 10},
		"host process namespace":             {members: []process{proc(10, 2)}, want: 10},
		"child with a namespace of its own":  {members: []process{proc(10, 2, 6), proc(11, 10, 7, 1)}, want: 10},
		"none":                               {},
		"shared namespace with kubectl exec": {members: []process{proc(10, 2, 6), proc(30, 2, 9)}},
		"two first processes":                {members: []process{proc(10, 2, 1), proc(30, 2, 1)}},
		"host namespace with kubectl exec":   {members: []process{proc(10, 2), proc(30, 2)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := mainProcess(tc.members)
			if got.pid != tc.want || (err == nil) != (tc.want != 0) {
				t.Errorf("got process %s, %v; want %d", strconv.Itoa(got.pid), err, tc.want)
			}
		})
	}
}
