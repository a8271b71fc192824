package kca

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"time"

	"kube-lab.dev/kube-lab/pkg/cli"
	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
	"kube-lab.dev/kube-lab/pkg/strictjson"
	"kube-lab.dev/kube-lab/pkg/verdict"
)

// finish judges the facts, and then the record as `grade` will, so that an act never says yes to
// evidence that is worth nothing. What does not pass is never written as evidence.
func (r *actRun) finish(facts any, checks []verdict.Check) error {
	if verdict.Fold(checks) != verdict.Pass {
		return r.refuse(checks)
	}
	body, err := strictjson.Marshal(facts)
	if err != nil {
		return fmt.Errorf("encoding the facts of act %d: %w", r.act, err)
	}
	record := r.record(body)
	graded, err := r.gradeOf(&record)
	if err != nil {
		return err
	}
	if verdict.Fold(graded) != verdict.Pass {
		return r.refuse(graded)
	}
	if r.raw != nil {
		sum, err := r.raw.Close()
		if err != nil {
			return fmt.Errorf("closing the raw file: %w", err)
		}
		if sum != record.RawSHA256 {
			return fmt.Errorf("%s: expected the content that was graded, saw another; keep the file", evidence.RawName(r.act))
		}
	}
	data, err := strictjson.Marshal(record)
	if err != nil {
		return fmt.Errorf("encoding the evidence of act %d: %w", r.act, err)
	}
	return r.store.Create(evidence.EvidenceName(r.act), data)
}

// refuse keeps the checks that an act's own facts did not pass.
func (r *actRun) refuse(checks []verdict.Check) error {
	return both(firstProblem(checks), errors.Join(r.note("judged", checks), r.syncRaw()))
}

// record puts the facts into their envelope.
func (r *actRun) record(facts []byte) drill.Record {
	return drill.Record{
		Schema:    drill.EvidenceSchema,
		Lab:       r.lab.Name,
		Act:       r.act,
		Tool:      drill.Tool{Version: cli.Version().Version, Commit: cli.Version().Commit},
		StartedAt: r.started.UTC().Format(time.RFC3339Nano),
		// Not a second reading of the wall clock, which may have been set back meanwhile.
		FinishedAt:     r.started.Add(r.o.now().Sub(r.started)).UTC().Format(time.RFC3339Nano),
		Cluster:        r.cluster,
		Inputs:         r.inputs,
		PreviousSHA256: r.digests[r.act-1],
		Facts:          facts,
	}
}

// gradeOf grades a record that is not written yet, over the files as they will be, and gives it the
// digest of the raw file.
func (r *actRun) gradeOf(record *drill.Record) ([]verdict.Check, error) {
	m := drill.Material{Lab: r.lab, Files: maps.Clone(r.material.Files)}
	if r.raw != nil {
		data, err := r.store.ReadFile(evidence.RawName(r.act))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		record.RawSHA256 = hex.EncodeToString(sum[:])
		m.Files[evidence.RawName(r.act)] = drill.File{Data: data}
	}
	data, err := strictjson.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encoding the evidence of act %d: %w", r.act, err)
	}
	m.Files[evidence.EvidenceName(r.act)] = drill.File{Data: data}
	return drill.Grade(m, r.act), nil
}
