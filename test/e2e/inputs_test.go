//go:build e2e

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// object is a JSON object of a learner's file.
type object map[string]any

// example reads one of the reference inputs that are shipped with the project.
func example(t *testing.T, name string) object {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "examples", "kca", name))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, data)
}

func decode(t *testing.T, data []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// with returns a copy with one field set; nil removes it.
func (o object) with(field string, value any) object {
	c := maps.Clone(o)
	if value == nil {
		delete(c, field)
		return c
	}
	c[field] = value
	return c
}

func (l *lab) inspect() (nodeUID, deploymentUID string, namespaces map[string]any) {
	l.t.Helper()
	o := decode(l.t, []byte(l.want(0, "", "inspect").stdout))
	return o["vm"].(map[string]any)["node_uid"].(string), o["deployment"].(map[string]any)["uid"].(string), o["namespaces"].(map[string]any)
}

// scope, plan, ignore, recovery and report fill the reference inputs as a learner would.

func (l *lab) scope() object {
	node, _, namespaces := l.inspect()
	return example(l.t, "scope.json").with("node_uid", node).with("namespaces", namespaces)
}

func (l *lab) plan() object {
	node, deployment, _ := l.inspect()
	return example(l.t, "freeze-plan.json").with("node_uid", node).with("deployment_uid", deployment).with("evidence_sha256", l.digest(3))
}

func (l *lab) ignore() object {
	o := decode(l.t, l.read("policy.json"))
	o["spec"].(map[string]any)["failurePolicy"] = "Ignore"
	return o
}

func (l *lab) recovery() object {
	var facts struct {
		Policy struct{ Metadata struct{ UID string } }
	}
	l.facts(2, &facts)
	return example(l.t, "recovery.json").with("policy_uid", facts.Policy.Metadata.UID).with("ignore_evidence_sha256", l.digest(6))
}

func (l *lab) report() object {
	return example(l.t, "report.json").with("fail_evidence_sha256", l.digest(5)).
		with("ignore_evidence_sha256", l.digest(6)).with("recovery_evidence_sha256", l.digest(7))
}

// refusesBadInput feeds one act every single-fault form of its input: a wrong value is "no" (1), a
// file that cannot be read strictly is "not judged" (2). Neither may write evidence.
func (l *lab) refusesBadInput(act int, name string, good object) {
	l.t.Helper()
	if err := os.Remove(filepath.Join(l.dir, name)); err != nil && !os.IsNotExist(err) {
		l.t.Fatal(err)
	}
	l.act(2, act, name)
	for field, value := range good {
		l.write(name, encode(l.t, good.with(field, nil)))
		l.act(2, act, field)
		l.write(name, encode(l.t, good.with(field, wrongValue(value))))
		l.act(1, act, field)
		l.write(name, encode(l.t, good.with(field, []any{})))
		l.act(2, act, field)
	}
	text := string(encode(l.t, good))
	for what, data := range map[string]string{
		"empty":         "",
		"null":          "null",
		"byte order":    "\ufeff" + text,
		"trailing data": text + "{}",
		"unknown field": strings.Replace(text, "{", `{"extra": 1,`, 1),
		"not UTF-8":     strings.Replace(text, `"`, "\"\xff", 1),
		"duplicate key": strings.Replace(text, "{", "{"+firstField(good)+",", 1),
	} {
		l.write(name, []byte(data))
		if r := l.kca(append([]string{"act", string(rune('0' + act))}, l.flags...)...); r.code != 2 {
			l.t.Fatalf("act %d with %s (%s): expected exit 2, saw %s", act, name, what, r)
		}
	}
	if l.has("evidence/0" + string(rune('0'+act)) + ".json") {
		l.t.Fatalf("act %d wrote evidence from bad input", act)
	}
}

// wrongValue is a value of the same type that is not right.
func wrongValue(v any) any {
	switch v := v.(type) {
	case string:
		return v + "x"
	case float64:
		return v + 1
	case bool:
		return !v
	case map[string]any:
		c := maps.Clone(v)
		for k, inner := range c {
			c[k] = wrongValue(inner)
			break
		}
		return c
	case []any:
		if len(v) == 0 {
			return []any{"x"}
		}
		return append([]any{wrongValue(v[0])}, v[1:]...)
	default:
		return v
	}
}

func firstField(o object) string {
	for k, v := range o {
		data, err := json.Marshal(object{k: v})
		if err != nil {
			return `"x":1`
		}
		return strings.Trim(string(data), "{}")
	}
	return `"x":1`
}
