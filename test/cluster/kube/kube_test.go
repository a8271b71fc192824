package kube

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

const readyPod = `{"items":[{"metadata":{"name":"a"},"status":{
	"conditions":[{"type":"Ready","status":"True"}],
	"containerStatuses":[{"containerID":"containerd://abc","state":{"running":{}}}]}}]}`

func TestPodsReady(t *testing.T) {
	for name, tc := range map[string]struct {
		pods    string
		want    int
		running Running
		fails   string
	}{
		"ready":                       {pods: readyPod, want: 1, running: Running{"abc": true}},
		"no pod":                      {pods: `{"items":[]}`, want: 1, fails: "0 of 1 pods"},
		"too few":                     {pods: readyPod, want: 2, running: Running{"abc": true}, fails: "1 of 2 pods"},
		"status older than the node":  {pods: readyPod, want: 1, running: Running{"old": true}, fails: "does not run"},
		"never said":                  {pods: `{"items":[{"metadata":{"name":"a"}}]}`, want: 1, fails: "has not said"},
		"only one that is going away": {pods: `{"items":[{"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}]}`, want: 1, fails: "0 of 1"},
		"image missing": {
			pods:  `{"items":[{"metadata":{"name":"a"},"status":{"containerStatuses":[{"state":{"waiting":{"reason":"ErrImagePull"}}}]}}]}`,
			fails: "ErrImagePull", want: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var pods podList
			if err := json.Unmarshal([]byte(tc.pods), &pods); err != nil {
				t.Fatal(err)
			}
			err := pods.ready("ns", tc.want, tc.running)
			if (tc.fails == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.fails)) {
				t.Errorf("got %v, want an error with %q", err, tc.fails)
			}
		})
	}
}

func TestUntil(t *testing.T) {
	calls := 0
	err := Until(t.Context(), time.Minute, func(context.Context) error {
		if calls++; calls < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || calls != 2 {
		t.Errorf("got %v after %d calls, want success after 2", err, calls)
	}
	broken := errors.New("broken")
	if err := Until(t.Context(), time.Minute, func(context.Context) error { return Final{broken} }); !errors.Is(err, broken) {
		t.Errorf("final error: got %v", err)
	}
	if err := Until(t.Context(), time.Nanosecond, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("time over: got %v, want the last complaint", err)
	}
}
