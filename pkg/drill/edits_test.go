package drill

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// edit is one way to spoil a value.
type edit struct {
	name  string
	apply func(old any) (replacement any, keep bool)
}

func edits() []edit {
	return []edit{
		{"deleted", func(any) (any, bool) { return nil, false }},
		{"null", func(any) (any, bool) { return nil, true }},
		{"empty", func(old any) (any, bool) { return emptyOf(old), true }},
		{"changed", func(old any) (any, bool) { return changed(old), true }},
	}
}

func emptyOf(v any) any {
	switch v.(type) {
	case string:
		return ""
	case float64:
		return 0.0
	case bool:
		return false
	case []any:
		return []any{}
	case map[string]any:
		return map[string]any{}
	default:
		return nil
	}
}

// changed is another value of the same kind; nil for what has parts of its own.
func changed(v any) any {
	switch value := v.(type) {
	case string:
		if strings.HasPrefix(value, "2026-") { // a time: half a second later
			return strings.Replace(value, "00.0", "00.5", 1)
		}
		return value + "0"
	case float64:
		if value > 1000 { // a time or a duration: by more than any tolerance
			return value + 1e9
		}
		return value + 1
	case bool:
		return !value
	case []any:
		return append(slices.Clone(value), "more")
	default:
		return v
	}
}

// paths lists every value below v as JSON Pointers, parents first.
func paths(v any, path string, all *[]string) {
	switch node := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			*all = append(*all, path+"/"+escapePointer(key))
			paths(node[key], path+"/"+escapePointer(key), all)
		}
	case []any:
		for i, value := range node {
			*all = append(*all, path+"/"+strconv.Itoa(i))
			paths(value, path+"/"+strconv.Itoa(i), all)
		}
	}
}

// spoil applies an edit at a path and says whether it made a difference.
func spoil(root map[string]any, path string, e edit) bool {
	elements := strings.Split(path, "/")[1:]
	var parent any = root
	var set func(any) // replaces parent in its own parent
	for _, element := range elements[:len(elements)-1] {
		key := unescape(element)
		switch node := parent.(type) {
		case map[string]any:
			parent, set = node[key], func(v any) { node[key] = v }
		case []any:
			i, _ := strconv.Atoi(key)
			parent, set = node[i], func(v any) { node[i] = v }
		}
	}
	last := unescape(elements[len(elements)-1])
	switch node := parent.(type) {
	case map[string]any:
		v, keep := e.apply(node[last])
		if keep && asJSON(v) == asJSON(node[last]) {
			return false
		}
		if keep {
			node[last] = v
		} else {
			delete(node, last)
		}
	case []any:
		i, _ := strconv.Atoi(last)
		v, keep := e.apply(node[i])
		if keep && asJSON(v) == asJSON(node[i]) {
			return false
		}
		if keep {
			node[i] = v
		} else {
			set(slices.Delete(slices.Clone(node), i, i+1))
		}
	}
	return true
}

func unescape(element string) string {
	return strings.ReplaceAll(strings.ReplaceAll(element, "~1", "/"), "~0", "~")
}

// listed says whether a path is on a list. "…" at the beginning of an entry stands for any parents.
func listed(path string, list []string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		tail, anywhere := strings.CutPrefix(entry, "…")
		want, have := strings.Split(tail, "/")[1:], strings.Split(path, "/")[1:]
		if anywhere && len(have) > len(want) {
			have = have[len(have)-len(want):]
		}
		return slices.EqualFunc(want, have, func(w, h string) bool { return w == "*" || w == h })
	})
}
