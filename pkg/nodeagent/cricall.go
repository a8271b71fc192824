package nodeagent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
)

// This file speaks just enough gRPC for one question: a unary call over HTTP/2 on a socket. The
// gRPC library and the CRI's generated types would make the plugin two thirds larger and its start a
// sixth slower, for every verb, which few ever need. The tests talk to a server made of both.

const (
	containerStatusMethod = "/runtime.v1.RuntimeService/ContainerStatus"
	// criAnswerLimit is far above a verbose status, which holds the container's whole OCI spec.
	criAnswerLimit = 16 << 20
	// grpcNotFound is the status code of an unknown container.
	grpcNotFound = 5
)

// grpcError is a status other than OK.
type grpcError struct {
	code    int
	message string
}

func (e *grpcError) Error() string { return fmt.Sprintf("%s (gRPC status %d)", e.message, e.code) }

// callUnary sends one message to a gRPC method on a unix socket and returns the answer's message.
func callUnary(ctx context.Context, socket, method string, message []byte) (answer []byte, err error) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: &protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+method, bytes.NewReader(frame(message)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(response.Body, criAnswerLimit+1))
	if err != nil {
		return nil, err
	}
	if err := statusOf(response); err != nil {
		return nil, err
	}
	return unframe(body)
}

// frame puts gRPC's prefix in front of a message: not compressed, and its length.
func frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...) //nolint:gosec // our own request is short
}

func unframe(body []byte) ([]byte, error) {
	if len(body) < 5 || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:5])) != uint64(len(body)-5) {
		return nil, fmt.Errorf("expected one whole gRPC message, saw %d bytes of something else", len(body))
	}
	return body[5:], nil
}

// statusOf reads the status, which is in the trailer, or in the header when there is no message. A
// missing status is an error: the stream ended before the server was done.
func statusOf(response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("expected HTTP status 200, saw %s", response.Status)
	}
	from := response.Trailer
	if from.Get("Grpc-Status") == "" {
		from = response.Header
	}
	code, err := strconv.Atoi(from.Get("Grpc-Status"))
	if err != nil {
		return fmt.Errorf("expected a gRPC status, saw %q", from.Get("Grpc-Status"))
	}
	if code == 0 {
		return nil
	}
	text, err := url.PathUnescape(from.Get("Grpc-Message"))
	if err != nil {
		text = from.Get("Grpc-Message")
	}
	return &grpcError{code: code, message: text}
}

// containerStatus is the part of the CRI's ContainerStatusResponse that the drill reads.
type containerStatus struct {
	id     string
	state  uint64
	labels map[string]string
	info   map[string]string // only in a verbose answer
}

// askStatus asks for the verbose status of one container (ContainerStatusRequest: 1 id, 2 verbose).
func askStatus(ctx context.Context, socket, id string) (containerStatus, error) {
	request := binary.AppendUvarint([]byte{1<<3 | wireBytes}, uint64(len(id)))
	request = append(append(request, id...), 2<<3|wireVarint, 1)
	answer, err := callUnary(ctx, socket, containerStatusMethod, request)
	if err != nil {
		return containerStatus{}, err
	}
	return parseStatus(answer)
}

// parseStatus reads a ContainerStatusResponse: 1 status, 2 info.
func parseStatus(message []byte) (containerStatus, error) {
	s := containerStatus{labels: map[string]string{}, info: map[string]string{}}
	err := eachField(message, func(number, _ uint64, data []byte) error {
		switch number {
		case 1:
			return s.read(data)
		case 2:
			return readEntry(data, s.info)
		}
		return nil
	})
	return s, err
}

// read takes the fields of a ContainerStatus: 1 id, 3 state, 12 labels.
func (s *containerStatus) read(message []byte) error {
	return eachField(message, func(number, integer uint64, data []byte) error {
		switch number {
		case 1:
			s.id = string(data)
		case 3:
			s.state = integer
		case 12:
			return readEntry(data, s.labels)
		}
		return nil
	})
}

// readEntry puts one entry of a map field into the map.
func readEntry(message []byte, into map[string]string) error {
	var key, value string
	err := eachField(message, func(number, _ uint64, data []byte) error {
		switch number {
		case 1:
			key = string(data)
		case 2:
			value = string(data)
		}
		return nil
	})
	into[key] = value
	return err
}

// The wire types of protobuf's encoding.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

var errCutMessage = errors.New("expected a whole protobuf message, saw one that is cut off or damaged")

// eachField calls f for each field of a protobuf message, with an integer or with bytes.
func eachField(message []byte, f func(number, integer uint64, data []byte) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errCutMessage
		}
		message = message[n:]
		var integer uint64
		var data []byte
		size := uint64(0)
		switch tag & 7 {
		case wireVarint:
			if integer, n = binary.Uvarint(message); n <= 0 {
				return errCutMessage
			}
			message = message[n:]
		case wireBytes:
			if size, n = binary.Uvarint(message); n <= 0 {
				return errCutMessage
			}
			message = message[n:]
		case wire64:
			size = 8
		case wire32:
			size = 4
		default:
			return errCutMessage
		}
		if size > uint64(len(message)) {
			return errCutMessage
		}
		data, message = message[:size], message[size:]
		if err := f(tag>>3, integer, data); err != nil {
			return err
		}
	}
	return nil
}
