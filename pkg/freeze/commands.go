package freeze

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// order is one line of the command channel, or its end: err is io.EOF after a
// hang-up and another error for a line that is no command.
type order struct {
	do  Verb
	err error
}

// readOrders turns the command channel into orders until its first error, or until
// done is closed. A reader that is blocked in r ends with the process: there is no
// portable way to interrupt a read of standard input.
func readOrders(r io.Reader, done <-chan struct{}) <-chan order {
	orders := make(chan order)
	var reader sync.WaitGroup
	reader.Go(func() {
		lines := bufio.NewScanner(r)
		for {
			o := nextOrder(lines)
			select {
			case orders <- o:
			case <-done:
				return
			}
			if o.err != nil {
				return
			}
		}
	})
	return orders
}

func nextOrder(lines *bufio.Scanner) order {
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var c Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return order{err: fmt.Errorf("reading command: %w", err)}
		}
		if c.Do != DoFreeze && c.Do != DoResume {
			return order{err: fmt.Errorf("reading command: expected freeze or resume, got %q", c.Do)}
		}
		return order{do: c.Do}
	}
	if err := lines.Err(); err != nil {
		return order{err: fmt.Errorf("reading command: %w", err)}
	}
	return order{err: io.EOF}
}
