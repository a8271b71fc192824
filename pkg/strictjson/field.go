package strictjson

import (
	"reflect"
	"slices"
	"strings"
)

// field is one key that a struct has in JSON.
type field struct {
	key      string
	t        reflect.Type
	optional bool
}

// fieldsOf lists the keys of a struct in order, those of embedded structs included.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			fields = append(fields, fieldsOf(f.Type)...)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		list := strings.Split(options, ",")
		optional := slices.Contains(list, "omitempty") || slices.Contains(list, "omitzero")
		fields = append(fields, field{key: name, t: f.Type, optional: optional})
	}
	return fields
}

// unknownKey words the error for a key that T does not have; keys that differ in case only get
// their own words, because other readers accept them.
func unknownKey(path, key string, fields []field) *Error {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
		if strings.EqualFold(f.key, key) {
			return &Error{Path: path, Expected: "key " + quote(f.key), Seen: quote(key) + " (upper and lower case matter)"}
		}
	}
	return &Error{Path: path, Expected: "no keys but " + quoteAll(keys), Seen: "key " + quote(key)}
}

func missingKeys(path string, fields []field, seen map[string]bool) *Error {
	var missing []string
	for _, f := range fields {
		if !f.optional && !seen[f.key] {
			missing = append(missing, f.key)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return &Error{Path: path, Expected: "key " + quoteAll(missing), Seen: "no such key"}
	default:
		return &Error{Path: path, Expected: "keys " + quoteAll(missing), Seen: "none of them"}
	}
}
