package drill

import (
	"errors"
	"fmt"

	"kube-lab.dev/kube-lab/pkg/strictjson"
)

// EvidenceFile is the name of an act's evidence in the lab folder.
func EvidenceFile(act int) string { return fmt.Sprintf("evidence/%02d.json", act) }

// RawFile is the name of an act's raw observations in the lab folder.
func RawFile(act int) string { return fmt.Sprintf("evidence/%02d.raw.jsonl", act) }

// DecodeRecord reads an evidence envelope strictly; the facts stay as they are. The error is a
// *strictjson.Error.
func DecodeRecord(file string, data []byte) (Record, error) {
	return strictjson.Decode[Record](file, data)
}

// DecodeFacts reads the facts of a record strictly as those of one act. The error is a
// *strictjson.Error.
func DecodeFacts[T any](r Record) (T, error) {
	facts, err := strictjson.Decode[T](EvidenceFile(r.Act), r.Facts)
	var e *strictjson.Error
	if errors.As(err, &e) {
		named := *e
		named.Path = "/facts" + e.Path
		return facts, &named
	}
	return facts, err
}
