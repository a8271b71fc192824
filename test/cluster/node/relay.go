package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// relayDescriptor is where startRelay passes the listening socket.
const relayDescriptor = 3

// RunRelay accepts connections on the inherited socket and joins each with one
// to address, until ctx ends.
func RunRelay(ctx context.Context, address string) error {
	listener, err := net.FileListener(os.NewFile(relayDescriptor, "listener"))
	if err != nil {
		return fmt.Errorf("taking over the listening socket: %w", err)
	}
	return relay(ctx, listener, address)
}

func relay(ctx context.Context, listener net.Listener, address string) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var group errgroup.Group
	for {
		outside, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil // asked to end
			}
			return err
		}
		group.Go(func() error {
			join(ctx, outside, address)
			return nil
		})
	}
}

// join copies both ways and passes the end of each direction on, which exec and
// port-forward rely on.
func join(ctx context.Context, outside net.Conn, address string) {
	defer outside.Close() //nolint:errcheck // nobody to tell
	dialer := net.Dialer{Timeout: 5 * time.Second}
	inside, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer inside.Close() //nolint:errcheck // nobody to tell
	var both errgroup.Group
	for _, way := range [][2]net.Conn{{inside, outside}, {outside, inside}} {
		both.Go(func() error {
			_, err := io.Copy(way[0], way[1])
			if half, ok := way[0].(interface{ CloseWrite() error }); ok {
				err = errors.Join(err, half.CloseWrite())
			}
			return err
		})
	}
	_ = both.Wait()
}
