package strictjson_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"kube-lab.dev/kube-lab/pkg/strictjson"
)

func utf16Bytes(order binary.AppendByteOrder, mark bool, s string) []byte {
	var out []byte
	if mark {
		out = order.AppendUint16(out, 0xFEFF)
	}
	for _, unit := range utf16.Encode([]rune(s)) {
		out = order.AppendUint16(out, unit)
	}
	return out
}

func TestCheckRefuses(t *testing.T) {
	const file = `{"a":1}`
	tests := map[string]struct {
		data []byte
		want string
	}{
		"F-01 empty file":            {nil, "expected one JSON value, saw an empty file"},
		"F-01 zero bytes":            {make([]byte, 512), "expected one JSON value, saw only zero bytes"},
		"only white space":           {[]byte(" \n\t\r\n"), "expected one JSON value, saw only white space"},
		"J-05 UTF-16LE with mark":    {utf16Bytes(binary.LittleEndian, true, file), "UTF-16 or UTF-32 (some shells write it on redirection); save the file as UTF-8"},
		"J-05 UTF-16BE with mark":    {utf16Bytes(binary.BigEndian, true, file), "save the file as UTF-8"},
		"J-05 UTF-16LE without mark": {utf16Bytes(binary.LittleEndian, false, file), "save the file as UTF-8"},
		"J-05 UTF-16BE without mark": {utf16Bytes(binary.BigEndian, false, file), "save the file as UTF-8"},
		"J-05 UTF-32":                {[]byte("{\x00\x00\x00}\x00\x00\x00"), "save the file as UTF-8"},
		"byte order mark":            {[]byte("\ufeff" + file), "saw a byte order mark; save the file as UTF-8 without BOM"},
		"Latin-1":                    {[]byte("{\n\"é\":\"\xe9\"}"), "byte 0xe9 at line 2 column 6, which is not UTF-8"},
		"overlong UTF-8":             {[]byte("\"\xc0\xaf\""), "which is not UTF-8"},
		"surrogate in UTF-8":         {[]byte("\"\xed\xa0\x80\""), "which is not UTF-8"},
		"lone surrogate escape":      {[]byte(`"\ud800"`), "expected valid JSON"},
		"swapped surrogate escapes":  {[]byte(`"\udc00\ud800"`), "expected valid JSON"},
		"duplicate key":              {[]byte(`{"a":1,"b":{"c":1,"c":1}}`), `/b/c: expected each key once, saw key "c" again at line 1 column 19`},
		"duplicate after unescaping": {[]byte(`{"a/":1,"\u0061\/":2}`), `/a~1: expected each key once, saw key "a/" again`},
		"J-03 two values":            {[]byte(file + file), "expected nothing after the first value, saw more data at line 1 column 8"},
		"J-03 letter behind":         {[]byte(file + "x"), "expected nothing after the first value"},
		"J-03 comma behind":          {[]byte(file + "\n,"), "saw more data at line 2 column 1"},
		"zero byte behind":           {[]byte(file + "\x00"), "expected nothing after the first value"},
		"cut off":                    {[]byte(`{"a":[1,`), "/a: expected a complete JSON value, saw the end of the file"},
		"comment":                    {[]byte("{} // x"), "expected nothing after the first value"},
		"trailing comma":             {[]byte(`[1,]`), "expected valid JSON"},
		"single quotes":              {[]byte(`{'a':1}`), "expected valid JSON"},
		"NaN":                        {[]byte(`[NaN]`), "expected valid JSON"},
		"leading zero":               {[]byte(`01`), "expected"},
		"plus sign":                  {[]byte(`+1`), "expected valid JSON"},
		"raw control character":      {[]byte("\"\x1b\""), "expected valid JSON"},
		"integer beyond 2^53":        {[]byte(`[9007199254740993]`), "/0: expected an integer of at most 2^53"},
		"negative beyond -2^53":      {[]byte(`-9007199254740993`), "expected an integer of at most 2^53"},
		"float that is 2^53":         {[]byte(`9007199254740993.0`), "expected an integer of at most 2^53"},
		"float between":              {[]byte(`1e20`), "expected an integer of at most 2^53"},
		"float beyond range":         {[]byte(`1e400`), "expected a number that fits a 64-bit float"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := strictjson.Check(tt.data, strictjson.Limits{ExactNumbers: true})
			var e *strictjson.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
			assertOneLine(t, err)
		})
	}
}

func TestCheckAccepts(t *testing.T) {
	for name, data := range map[string]string{
		"J-03 white space behind":  "{}\n\n \t\r",
		"scalar":                   "null",
		"same key in two objects":  `[{"a":1},{"a":1}]`,
		"escaped pair":             `"\ud83d\ude00"`,
		"zero byte escape":         `"\u0000"`,
		"2^53":                     `[9007199254740992,-9007199254740992]`,
		"floats above 1e21":        `[1E30,1e21]`,
		"64 levels":                strings.Repeat("[", 64) + strings.Repeat("]", 64),
		"keys that differ in case": `{"a":1,"A":1}`,
	} {
		if err := strictjson.Check([]byte(data), strictjson.Limits{ExactNumbers: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := strictjson.Check([]byte(`9223372036854775808`), strictjson.Limits{}); err != nil {
		t.Errorf("without ExactNumbers: %v", err)
	}
}

// TestJ09DeepNesting also bounds what a refusal costs.
func TestJ09DeepNesting(t *testing.T) {
	for name, data := range map[string][]byte{
		"J-09 arrays":  bytes.Repeat([]byte("["), 100000),
		"J-09 objects": bytes.Repeat([]byte(`{"a":`), 100000),
		"J-09 mixed":   bytes.Repeat([]byte(`[{"a":`), 100000),
		"65 levels":    []byte(strings.Repeat("[", 65) + strings.Repeat("]", 65)),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := strictjson.Decode[state]("deep.json", data)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), "expected at most 64 levels of nesting") {
				t.Errorf("got %v, want a refusal for depth", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
				t.Errorf("refusing took %d bytes of memory, want at most 256 KiB", got)
			}
		})
	}
}

func TestCheckLimits(t *testing.T) {
	big := append([]byte(`"`), bytes.Repeat([]byte("a"), strictjson.MaxBytes)...)
	err := strictjson.Check(append(big, '"'), strictjson.Limits{})
	if err == nil || !strings.Contains(err.Error(), "expected at most 16777216 bytes, saw 16777218 bytes") {
		t.Errorf("over 16 MiB: got %v", err)
	}
	if err := strictjson.Check([]byte(`[1]`), strictjson.Limits{Bytes: 2}); err == nil {
		t.Error("3 bytes accepted with a limit of 2")
	}
	if err := strictjson.Check([]byte(`[[1]]`), strictjson.Limits{Depth: 1}); err == nil {
		t.Error("2 levels accepted with a limit of 1")
	}
}
