package kca

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/report"
)

// labStatus is what `status` prints.
type labStatus struct {
	Lab    string `json:"lab"`
	Folder string `json:"folder"`
	// Context is the bound context; empty before init.
	Context string `json:"context"`
	// State is new (init is missing), started, uncertain, complete or damaged.
	State string      `json:"state"`
	Acts  []actStatus `json:"acts"`
	// Next is the next act; 0 when there is none.
	Next int `json:"next"`
	// Missing are the files that the next act needs and that are not there.
	Missing []string `json:"missing"`
	// Advice is the next step in words.
	Advice string `json:"advice"`
}

type actStatus struct {
	Act      int            `json:"act"`
	Title    string         `json:"title"`
	State    evidence.State `json:"state"`
	Input    string         `json:"input"` // "" when the act has none
	HasInput bool           `json:"has_input"`
	Evidence string         `json:"evidence"`
}

// The states of a lab.
const (
	labNew       = "new"
	labStarted   = "started"
	labUncertain = "uncertain"
	labComplete  = "complete"
	labDamaged   = "damaged"
)

// damaged is the state of an act whose record is there and is none.
const damaged evidence.State = "damaged"

// newStatusCommand is the verb `status`.
func newStatusCommand(g *globals) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which acts are done, what comes next and what is missing",
		Long: `Show which acts are done, what comes next and what is missing. It looks at the lab's folder only.

Exit 0 when the folder could be read, 2 when evidence in it is damaged or missing below later acts.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := knownFormat(format, formatText, formatJSON, formatYAML); err != nil {
				return err
			}
			return g.status(format)
		},
	}
	outputFlag(cmd, &format, formatText, formatText, formatJSON, formatYAML)
	return cmd
}

func (g *globals) status(format string) error {
	lab, err := g.lab()
	if err != nil {
		return err
	}
	store, err := g.openStore()
	if err != nil {
		return err
	}
	s, err := g.readStatus(store, lab)
	if err != nil {
		return err
	}
	if format == formatText {
		err = g.showStatus(s)
	} else {
		err = writeData(g.streams.Out, format, s)
	}
	if err == nil && s.State == labDamaged {
		return cli.Trouble(nil) // said already
	}
	return err
}

func (g *globals) readStatus(store *evidence.Store, lab drill.Lab) (labStatus, error) {
	s := labStatus{Lab: lab.Name, Folder: store.Path(), State: labStarted, Missing: []string{}}
	data, err := store.ReadFile(bindingFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.State = labNew
	case err != nil:
		return s, err
	default:
		bind, err := decodeBinding(data, lab)
		if err != nil {
			return s, err
		}
		s.Context = bind.Context
	}
	for act := 1; act <= drill.Acts; act++ {
		a, err := readAct(store, lab, act)
		if err != nil {
			return s, err
		}
		s.Acts = append(s.Acts, a)
	}
	s.conclude()
	return s, nil
}

// readAct looks at the files of one act.
func readAct(store *evidence.Store, lab drill.Lab, act int) (actStatus, error) {
	a := actStatus{Act: act, Title: stepTitles[act-1], Input: drill.InputOf(act), Evidence: evidence.EvidenceName(act)}
	var err error
	if a.State, err = store.ActState(act); err != nil {
		return a, err
	}
	if a.State == evidence.Done && !isRecord(store, lab, act) {
		a.State = damaged
	}
	if a.Input != "" {
		a.HasInput, err = store.Exists(a.Input)
	}
	return a, err
}

// isRecord says whether an act's evidence is a record of that act. What it is worth is for `grade`.
func isRecord(store *evidence.Store, lab drill.Lab, act int) bool {
	name := evidence.EvidenceName(act)
	data, err := store.ReadFile(name)
	if err != nil {
		return false
	}
	record, err := drill.DecodeRecord(name, data)
	return err == nil && record.Schema == drill.EvidenceSchema && record.Lab == lab.Name && record.Act == act
}

// conclude finds the next act and words the next step.
func (s *labStatus) conclude() {
	if fault := s.fault(); fault != "" {
		s.State, s.Advice = labDamaged, fault+"; put the original file back, or kubectl kca reset and start a new lab"
		return
	}
	for _, a := range s.Acts {
		if a.State == evidence.Interrupted {
			s.State, s.Next = labUncertain, 0
			s.Advice = fmt.Sprintf("act %d was interrupted or is at work right now; if it is not: keep %s, then kubectl kca rescue, kubectl kca reset, and start a new lab", a.Act, evidence.RawName(a.Act))
			return
		}
	}
	for _, a := range s.Acts {
		if a.State == evidence.Missing {
			s.Next = a.Act
			break
		}
	}
	if s.State == labNew {
		s.Advice = "kubectl kca init binds this lab to a cluster"
		return
	}
	if s.Next == 0 {
		s.State = labComplete
		s.Advice = "kubectl kca grade judges the whole drill"
		return
	}
	next := s.Acts[s.Next-1]
	s.Advice = fmt.Sprintf("kubectl kca act %d", s.Next)
	if next.Input != "" && !next.HasInput {
		s.Missing = []string{next.Input}
		s.Advice = fmt.Sprintf("write %s/%s, then kubectl kca act %d", s.Folder, next.Input, s.Next)
	}
}

// fault names the first evidence without which no act can go on: a record that is none, or one that
// is missing below a later act. It is "" when there is no such evidence.
func (s *labStatus) fault() string {
	missing := ""
	for _, a := range s.Acts {
		switch {
		case a.State == damaged:
			return fmt.Sprintf("%s is no record of act %d", a.Evidence, a.Act)
		case a.State == evidence.Missing && missing == "":
			missing = a.Evidence
		case a.State == evidence.Done && missing != "":
			return fmt.Sprintf("%s is missing, although act %d stands on it", missing, a.Act)
		}
	}
	return ""
}

func (g *globals) showStatus(s labStatus) error {
	context := s.Context
	if context == "" {
		context = "none yet"
	}
	if _, err := fmt.Fprintf(g.streams.Out, "lab %s, %s, in %s\ncluster context: %s\n\n", s.Lab, s.State, report.Escape(s.Folder), report.Escape(context)); err != nil {
		return err
	}
	var rows [][]string
	for _, a := range s.Acts {
		input := a.Input
		if input != "" && !a.HasInput {
			input += " (missing)"
		}
		rows = append(rows, []string{strconv.Itoa(a.Act), string(a.State), a.Title, input})
	}
	if err := report.Table(g.streams.Out, []string{"ACT", "STATE", "WHAT", "INPUT"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(g.streams.Out, "\nnext: %s\n", report.Escape(s.Advice))
	return err
}
