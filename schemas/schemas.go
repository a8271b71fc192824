// Package schemas holds the JSON Schemas (draft 2020-12) of the files that the plugins read and
// write. The programs themselves do not use them: they are for editors, instructors and tests.
package schemas

import "embed"

// BaseURL begins the $id of every schema; the rest is its path in FS.
const BaseURL = "https://kube-lab.dev/schemas/"

// KCAEvidence is the schema of evidence/NN.json, as a path in FS.
const KCAEvidence = "kca/evidence.v1.schema.json"

// FS holds the schemas.
//
//go:embed *.schema.json kca/*.schema.json
var FS embed.FS
