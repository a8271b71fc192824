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
