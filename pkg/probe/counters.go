package probe

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The API server's own counters of webhook calls that failed open and of requests that a webhook
// kept out.
const (
	counterPrefix    = "apiserver_admission_webhook_"
	failOpenCounter  = counterPrefix + "fail_open_count"
	rejectionCounter = counterPrefix + "rejection_count"
)

// The bounds of what is read from /metrics: in all, and for one line.
const (
	metricsLimit = 64 << 20
	lineLimit    = 1 << 20
)

// Counters reads the two counters for the expected webhook from the API server's /metrics, as series
// text with sorted labels. They are those of the one API server that answered, and a series that
// never counted is not there. A caller who may not read them gets an error that
// apierrors.IsForbidden knows.
func (p *Prober) Counters(ctx context.Context) (map[string]float64, error) {
	body, err := p.client.Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's counters: %w", err)
	}
	counters, err := parseCounters(body, p.expected.Webhook)
	closing := body.Close()
	if err == nil {
		err = closing
	}
	if err != nil {
		return nil, fmt.Errorf("reading the API server's counters: %w", err)
	}
	return counters, nil
}

// parseCounters reads the Prometheus text format line by line.
func parseCounters(r io.Reader, hook string) (map[string]float64, error) {
	counters := map[string]float64{}
	limited := &io.LimitedReader{R: r, N: metricsLimit}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 64<<10), lineLimit)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte(counterPrefix)) {
			continue
		}
		name, rest, ok := strings.Cut(lines.Text(), "{")
		if !ok || name != failOpenCounter && name != rejectionCounter {
			continue
		}
		labels, rest, err := parseLabels(rest)
		if err != nil {
			return nil, fmt.Errorf("parsing a line of %s: %w", name, err)
		}
		if labels["name"] != hook {
			continue
		}
		// A time stamp may follow the value.
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return nil, fmt.Errorf("parsing a line of %s: expected a value, saw none", name)
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("parsing a line of %s: %w", name, err)
		}
		counters[series(name, labels)] = value
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("expected at most %d MiB, saw more", metricsLimit>>20)
	}
	return counters, nil
}

// parseLabels reads `name="value",…}` and returns what follows. In a value, only backslash, quote
// and line feed are escaped.
func parseLabels(text string) (map[string]string, string, error) {
	labels := map[string]string{}
	for {
		text = strings.TrimLeft(text, " ,")
		if rest, done := strings.CutPrefix(text, "}"); done {
			return labels, rest, nil
		}
		name, rest, ok := strings.Cut(text, `="`)
		if !ok || name == "" {
			return nil, "", fmt.Errorf("expected label=\"value\" or }, saw %q", text)
		}
		value, rest, ok := parseValue(rest)
		if !ok {
			return nil, "", fmt.Errorf("expected a closing quote for label %s, saw none", name)
		}
		labels[strings.TrimSpace(name)], text = value, rest
	}
}

func parseValue(text string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// series is the text of one series, the same for the same labels in any order.
func series(name string, labels map[string]string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	pairs := make([]string, 0, len(labels))
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, label+`="`+escape.Replace(labels[label])+`"`)
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}
