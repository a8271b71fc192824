package strictjson

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads data as a T. Besides what Check refuses, every key must be one of T's, spelled
// exactly so; every field of T must be present unless its tag says omitempty or omitzero; null is
// accepted only by pointers, interfaces and jsontext.Value; types must be exact, so an integer field
// takes neither 1.0 nor "1". The error is always an *Error that carries the file name.
func Decode[T any](file string, data []byte) (T, error) {
	var value, zero T
	err := Check(data, Limits{ExactNumbers: true})
	if err == nil {
		err = checkShape(data, reflect.TypeFor[T]())
	}
	if err == nil {
		err = json.Unmarshal(data, &value, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return zero, inFile(file, err)
	}
	return value, nil
}

// inFile makes an *Error with a file name of any error.
func inFile(file string, err error) *Error {
	var ours *Error
	if errors.As(err, &ours) {
		named := *ours
		named.File = file
		return &named
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		cause := "a value that does not fit"
		if semantic.Err != nil {
			cause = semantic.Err.Error()
		}
		return &Error{File: file, Path: string(semantic.JSONPointer), Expected: fmt.Sprintf("a value for %v", semantic.GoType), Seen: cause}
	}
	return &Error{File: file, Expected: "valid JSON", Seen: err.Error()}
}

// checkShape walks data, which Check has accepted, along a Go type. The decoder alone would let
// missing keys and nulls pass silently as zero values.
func checkShape(data []byte, t reflect.Type) error {
	w := walker{jsontext.NewDecoder(bytes.NewBuffer(data))}
	if e := w.value(t); e != nil {
		return e
	}
	return nil
}

type walker struct{ dec *jsontext.Decoder }

func (w walker) value(t reflect.Type) *Error {
	null := w.dec.PeekKind() == 'n'
	switch {
	case t.Kind() == reflect.Pointer && null, t.Kind() == reflect.Interface, t == reflect.TypeFor[jsontext.Value]():
		return w.skip()
	case t.Kind() == reflect.Pointer:
		return w.value(t.Elem())
	case readsItself(t) && !null:
		return w.skip()
	}
	switch t.Kind() {
	case reflect.Struct:
		return w.object(t)
	case reflect.Map:
		return w.mapping(t)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return w.scalar(t, '"', "string")
		}
		return w.array(t)
	case reflect.String:
		return w.scalar(t, '"', "string")
	case reflect.Bool:
		return w.scalar(t, 't', "boolean")
	case reflect.Float32, reflect.Float64:
		return w.scalar(t, '0', "number")
	default:
		return w.scalar(t, '0', "integer")
	}
}

// readsItself reports whether the type brings its own decoding, which Decode leaves to it.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[json.UnmarshalerFrom]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (w walker) skip() *Error {
	if err := w.dec.SkipValue(); err != nil {
		return &Error{Path: string(w.dec.StackPointer()), Expected: "valid JSON", Seen: err.Error()}
	}
	return nil
}

// scalar reads one value and reports whether it is of the kind that t needs.
func (w walker) scalar(t reflect.Type, kind jsontext.Kind, expected string) *Error {
	v, err := w.dec.ReadValue()
	if err != nil {
		return &Error{Path: string(w.dec.StackPointer()), Expected: expected, Seen: err.Error()}
	}
	wrong := func(expected string) *Error {
		return &Error{Path: string(w.dec.StackPointer()), Expected: expected, Seen: describe(v)}
	}
	seen := v.Kind()
	if seen == 'f' {
		seen = 't'
	}
	if seen != kind {
		return wrong(expected)
	}
	if expected != "integer" {
		return nil
	}
	if strings.ContainsAny(string(v), ".eE") {
		return wrong("integer without fraction or exponent")
	}
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uintptr {
		if _, err := strconv.ParseUint(string(v), 10, t.Bits()); err != nil {
			return wrong(fmt.Sprintf("integer from 0 that fits %d bits", t.Bits()))
		}
		return nil
	}
	if _, err := strconv.ParseInt(string(v), 10, t.Bits()); err != nil {
		return wrong(fmt.Sprintf("integer that fits %d bits", t.Bits()))
	}
	return nil
}

// open reads the first token of an object or array and returns where it is.
func (w walker) open(kind jsontext.Kind, expected string) (string, *Error) {
	if w.dec.PeekKind() != kind {
		return "", w.scalar(reflect.TypeFor[any](), kind, expected)
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return "", &Error{Expected: expected, Seen: err.Error()}
	}
	return string(w.dec.StackPointer()), nil
}

func (w walker) array(t reflect.Type) *Error {
	if _, e := w.open('[', "array"); e != nil {
		return e
	}
	for w.dec.PeekKind() != ']' {
		if e := w.value(t.Elem()); e != nil {
			return e
		}
	}
	return w.close()
}

func (w walker) mapping(t reflect.Type) *Error {
	if _, e := w.open('{', "object"); e != nil {
		return e
	}
	for w.dec.PeekKind() != '}' {
		if e := w.skip(); e != nil {
			return e
		}
		if e := w.value(t.Elem()); e != nil {
			return e
		}
	}
	return w.close()
}

func (w walker) close() *Error {
	if _, err := w.dec.ReadToken(); err != nil {
		return &Error{Expected: "valid JSON", Seen: err.Error()}
	}
	return nil
}

func (w walker) object(t reflect.Type) *Error {
	path, e := w.open('{', "object")
	if e != nil {
		return e
	}
	fields := fieldsOf(t)
	var unknown string
	unknownPath, seen := "", map[string]bool{}
	for w.dec.PeekKind() != '}' {
		token, err := w.dec.ReadToken()
		if err != nil {
			return &Error{Path: path, Expected: "valid JSON", Seen: err.Error()}
		}
		key := token.String()
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			if unknownPath == "" {
				unknown, unknownPath = key, string(w.dec.StackPointer())
			}
			e = w.skip()
		} else {
			seen[key] = true
			e = w.value(fields[i].t)
		}
		if e != nil {
			return e
		}
	}
	if unknownPath != "" {
		return unknownKey(unknownPath, unknown, fields)
	}
	if e := missingKeys(path, fields, seen); e != nil {
		return e
	}
	return w.close()
}
