// Package step runs a procedure that is a list of named steps, each with its
// undo, and tells a watcher what goes on and for how long.
package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Note tells the watcher what a running step is doing. It may be called from
// several goroutines.
type Note func(format string, args ...any)

// Step is one part of a procedure.
type Step struct {
	// Name says in a few words what is there once the step is done.
	Name string
	// Do brings it about; it changes nothing where it already is.
	Do func(ctx context.Context, note Note) error
	// Undo takes it away; it succeeds where nothing is there. Nil when the
	// step leaves nothing behind.
	Undo func(ctx context.Context) error
}

// Do runs the steps in order and stops at the first that fails.
func Do(ctx context.Context, p *Progress, steps []Step) error {
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.run(s.Name, func(note Note) error { return s.Do(ctx, note) }); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// Undo takes the steps back, last first. A failure does not keep the earlier
// steps from being taken back.
func Undo(ctx context.Context, p *Progress, steps []Step) error {
	var failed []error
	for _, s := range slices.Backward(steps) {
		if s.Undo == nil {
			continue
		}
		if err := p.run("remove "+s.Name, func(Note) error { return s.Undo(ctx) }); err != nil {
			failed = append(failed, fmt.Errorf("removing %s: %w", s.Name, err))
		}
	}
	return errors.Join(failed...)
}
