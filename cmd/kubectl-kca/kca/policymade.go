package kca

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"

	"kube-lab.dev/kube-lab/pkg/drill"
	"kube-lab.dev/kube-lab/pkg/evidence"
)

// policyMaking is what act 2 left about the policy it created.
type policyMaking struct {
	// uid is the policy's; empty when the answer of the API server was never seen.
	uid string
	// asked means that the creation was asked for.
	asked bool
}

// policyMade reads the policy's UID from act 2's evidence, else from its raw file. A raw file that
// ends after the request means that the policy may exist under a UID nobody saw.
func policyMade(store *evidence.Store) (policyMaking, error) {
	name := evidence.EvidenceName(2)
	data, err := store.ReadFile(name)
	if err == nil {
		if uid := recordedPolicy(name, data); uid != "" {
			return policyMaking{uid: uid, asked: true}, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return policyMaking{}, err
	}
	data, err = store.ReadFile(evidence.RawName(2))
	if errors.Is(err, fs.ErrNotExist) {
		return policyMaking{}, nil
	}
	if err != nil {
		return policyMaking{}, err
	}
	return observedPolicy(data), nil
}

// recordedPolicy is the policy's UID in 02.json; empty when the file was damaged since.
func recordedPolicy(name string, data []byte) string {
	record, err := drill.DecodeRecord(name, data)
	if err != nil {
		return ""
	}
	facts, err := drill.DecodeFacts[drill.Act2Facts](record)
	if err != nil {
		return ""
	}
	uid, err := drill.PolicyUID(facts.Policy)
	if err != nil {
		return ""
	}
	return uid
}

// observedPolicy looks through raw observations, of which the last may be cut off.
func observedPolicy(raw []byte) policyMaking {
	var made policyMaking
	for line := range bytes.Lines(raw) {
		var seen struct {
			Kind string          `json:"kind"`
			Data json.RawMessage `json:"data"`
		}
		if json.Unmarshal(line, &seen) != nil {
			continue
		}
		switch seen.Kind {
		case rawCreatePolicy:
			made.asked = true
		case rawPolicy:
			if uid, err := drill.PolicyUID([]byte(seen.Data)); err == nil {
				made.uid = uid
			}
		}
	}
	return made
}

// Kinds of act 2's raw observations: the request to create the policy, and the policy as stored.
const (
	rawCreatePolicy = "create-policy"
	rawPolicy       = "policy"
)
