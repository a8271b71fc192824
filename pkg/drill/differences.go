package drill

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// difference is one place where two JSON values do not agree.
type difference struct {
	path       string // JSON Pointer
	want, seen string // as JSON; "nothing" when absent
}

// strictness says whether seen may hold keys that were not asked for.
type strictness bool

const (
	exactly strictness = true
	atLeast strictness = false
)

// differences compares a Go value with JSON text, leaf by leaf. Arrays must have the same length.
func differences(want any, seen []byte, how strictness) ([]difference, error) {
	asked, err := json.Marshal(want)
	if err != nil {
		return nil, fmt.Errorf("encoding what was asked: %w", err)
	}
	var a, b any
	if err := json.Unmarshal(asked, &a); err != nil {
		return nil, fmt.Errorf("reading what was asked: %w", err)
	}
	if err := json.Unmarshal(seen, &b); err != nil {
		return nil, fmt.Errorf("reading what was seen: %w", err)
	}
	return compareJSON("", a, b, how), nil
}

func compareJSON(path string, want, seen any, how strictness) []difference {
	switch w := want.(type) {
	case map[string]any:
		if s, ok := seen.(map[string]any); ok {
			return compareObjects(path, w, s, how)
		}
	case []any:
		if s, ok := seen.([]any); ok && len(s) == len(w) {
			var all []difference
			for i := range w {
				all = append(all, compareJSON(path+"/"+strconv.Itoa(i), w[i], s[i], how)...)
			}
			return all
		}
	default:
		if _, object := seen.(map[string]any); !object {
			if _, array := seen.([]any); !array && want == seen {
				return nil
			}
		}
	}
	return []difference{{path, asJSON(want), asJSON(seen)}}
}

func compareObjects(path string, want, seen map[string]any, how strictness) []difference {
	var all []difference
	for _, key := range slices.Sorted(maps.Keys(want)) {
		below := path + "/" + escapePointer(key)
		if value, ok := seen[key]; ok {
			all = append(all, compareJSON(below, want[key], value, how)...)
		} else {
			all = append(all, difference{below, asJSON(want[key]), nothing})
		}
	}
	if how == exactly {
		for _, key := range slices.Sorted(maps.Keys(seen)) {
			if _, ok := want[key]; !ok {
				all = append(all, difference{path + "/" + escapePointer(key), nothing, asJSON(seen[key])})
			}
		}
	}
	return all
}

func escapePointer(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func asJSON(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "a value that is no JSON"
	}
	return string(text)
}

// narrowed names the fields of a live policy that would take requests away from it.
func narrowed(live jsontext.Value) []string {
	var object any
	if err := json.Unmarshal(live, &object); err != nil {
		return []string{"the policy object cannot be read"}
	}
	var faults []string
	for _, path := range []string{
		"/spec/matchConditions",
		"/spec/matchConstraints/excludeResourceRules",
		"/spec/matchConstraints/objectSelector",
		"/spec/matchConstraints/namespaceSelector/matchExpressions",
		"/spec/matchConstraints/resourceRules/0/resourceNames",
	} {
		if v := valueAt(object, path); !isEmpty(v) {
			faults = append(faults, path+" is "+asJSON(v))
		}
	}
	// Without admission, or with a policy generated for the API server, there is no webhook to freeze (facts.md A1).
	if valueAt(object, "/spec/evaluation/admission/enabled") == false {
		faults = append(faults, "/spec/evaluation/admission/enabled is false")
	}
	if valueAt(object, "/spec/autogen/validatingAdmissionPolicy/enabled") == true {
		faults = append(faults, "/spec/autogen/validatingAdmissionPolicy/enabled is true")
	}
	return faults
}

// valueAt follows a JSON Pointer without escapes; nil means absent or null.
func valueAt(v any, path string) any {
	for _, key := range strings.Split(path, "/")[1:] {
		switch node := v.(type) {
		case map[string]any:
			v = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

func isEmpty(v any) bool {
	switch node := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(node) == 0
	case []any:
		return len(node) == 0
	case string:
		return node == ""
	default:
		return false
	}
}
