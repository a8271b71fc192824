package freeze

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReadOrders(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []Verb
		eof  bool // the end is a hang-up, not a wrong line
	}{
		"hang-up":          {in: "", eof: true},
		"both":             {in: "{\"do\":\"freeze\"}\n\n{\"do\":\"resume\"}\n", want: []Verb{DoFreeze, DoResume}, eof: true},
		"last line open":   {in: `{"do":"freeze"}`, want: []Verb{DoFreeze}, eof: true},
		"unknown verb":     {in: "{\"do\":\"thaw\"}\n{\"do\":\"freeze\"}\n"},
		"no verb":          {in: "{}\n"},
		"not JSON":         {in: "freeze\n"},
		"much too long":    {in: strings.Repeat("x", 1<<20)},
		"half a line lost": {in: "{\"do\":\"fre"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			done := make(chan struct{})
			defer close(done)
			orders := readOrders(strings.NewReader(tc.in), done)
			for _, want := range tc.want {
				if o := <-orders; o.err != nil || o.do != want {
					t.Fatalf("got %+v, want %s", o, want)
				}
			}
			if o := <-orders; o.err == nil || errors.Is(o.err, io.EOF) != tc.eof {
				t.Errorf("got %+v at the end, want a hang-up: %v", o, tc.eof)
			}
		})
	}
}
