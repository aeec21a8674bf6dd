package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/master/natsd"
)

const (
	chunkSize = 128 << 10 // bytes of a message with a part of a snapshot

	// answerTime bounds how long the server takes for one step: to begin a snapshot, to send or take the next chunk.
	answerTime = 30 * time.Second

	// askPause is the time between two requests to a bus that is not ready for them.
	askPause = 100 * time.Millisecond

	// electionTime is how long the servers of a cluster may take to elect leaders: when they have just started, and
	// when one of them is lost.
	electionTime = 2 * time.Minute

	// indexTime bounds how long the server takes to open a stream after its last chunk.
	indexTime = 10 * time.Minute
)

// A reply is what the server answers to a request about a snapshot.
type reply struct {
	Error          *jetstream.APIError    `json:"error"`
	Config         jetstream.StreamConfig `json:"config"`
	State          json.RawMessage        `json:"state"`
	DeliverSubject string                 `json:"deliver_subject"`
}

// ask sends a request of the JetStream API. The error is a [*jetstream.APIError] if the server refuses it.
func ask(ctx context.Context, nc *nats.Conn, subject string, request any, limit time.Duration) (r reply, err error) {
	text, err := json.Marshal(request)
	if err != nil {
		return r, err
	}
	return askRaw(ctx, nc, subject, text, limit)
}

// askRaw sends a request. In a cluster another server may take the chunks of a stream, and the server of the connection
// may not know yet that it listens. Then nobody has got the request, and askRaw sends it again.
func askRaw(ctx context.Context, nc *nats.Conn, subject string, data []byte, limit time.Duration) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, subject, data)
	for errors.Is(err, nats.ErrNoResponders) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(askPause):
			msg, err = nc.RequestWithContext(ctx, subject, data)
		}
	}
	if err != nil || len(msg.Data) == 0 {
		return r, err
	}
	if err := json.Unmarshal(msg.Data, &r); err != nil {
		return r, fmt.Errorf("cannot read the reply of the bus: %w", err)
	}
	if r.Error != nil {
		return r, r.Error
	}
	return r, nil
}

// isWithoutLeader reports whether a cluster refused a request, did not answer or ended a snapshot because it has no
// leader.
func isWithoutLeader(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.Code == 503 || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, errEnded)
}

// untilLed calls ask again as long as a cluster has no leader for it, at most for the time of an election.
func untilLed[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		answer, err := ask()
		switch {
		case !isWithoutLeader(err) || ctx.Err() != nil:
			return answer, err
		case time.Since(began) >= electionTime:
			return answer, fmt.Errorf("%w, tried for %v: look whether a server of the bus is lost", err, electionTime)
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(askPause):
		}
	}
}

// snapshot writes a snapshot of a stream to a file. Consumers are part of it only where some are durable. The others
// belong to a connection, and one on a server that is lost stays without an answer until that server is back.
func snapshot(ctx context.Context, nc *nats.Conn, name string, w *os.File) (Stream, error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return Stream{}, err
	}
	defer sub.Unsubscribe()
	r, err := ask(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+name, struct {
		DeliverSubject string `json:"deliver_subject"`
		ChunkSize      int    `json:"chunk_size"`
		NoConsumers    bool   `json:"no_consumers"`
	}{inbox, chunkSize, name != durable}, answerTime)
	if err != nil {
		return Stream{}, err
	}
	var state struct {
		Messages uint64 `json:"messages"`
		Bytes    uint64 `json:"bytes"`
		Last     uint64 `json:"last_seq"`
	}
	if err := json.Unmarshal(r.State, &state); err != nil {
		return Stream{}, fmt.Errorf("cannot read the state of the stream: %w", err)
	}
	if err := checkRoom(w, state.Bytes); err != nil {
		return Stream{}, err
	}
	sum := newHashed()
	if err := receive(ctx, sub, io.MultiWriter(w, sum)); err != nil {
		return Stream{}, err
	}
	return Stream{
		Part: sum.part(name), Config: r.Config, State: r.State, Messages: state.Messages, Last: state.Last,
	}, nil
}

// keepFree is how much of its disk a backup leaves free: more than a master needs so that it goes on dispatching jobs.
const keepFree = 128 << 20

// checkRoom returns an error if the disk of a file does not have room for n more bytes. The bus that is copied may be
// on the same disk.
func checkRoom(f *os.File, n uint64) error {
	dir := filepath.Dir(f.Name())
	free, err := natsd.FreeSpace(dir)
	if err != nil {
		return err
	}
	if free < n || free-n < keepFree {
		return fmt.Errorf("its copy takes %d MiB in %s, whose disk has %d MiB free and keeps %d", n>>20, dir,
			free>>20, keepFree>>20)
	}
	return nil
}

// receive writes the chunks of a snapshot until its end.
func receive(ctx context.Context, sub *nats.Subscription, w io.Writer) error {
	for {
		msg, err := next(ctx, sub)
		if err != nil {
			return err
		}
		if len(msg.Data) == 0 {
			return ended(sub, msg.Header)
		}
		if _, err := w.Write(msg.Data); err != nil {
			return err
		}
		if msg.Reply == "" { // of the last chunk
			continue
		}
		if err := msg.Respond(nil); err != nil {
			return err
		}
	}
}

func next(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

var errEnded = errors.New("the bus ended the snapshot")

// ended returns an error unless the message with these headers ends a complete snapshot.
func ended(sub *nats.Subscription, header nats.Header) error {
	if status := header.Get("Status"); status != "" && status != "204" {
		return fmt.Errorf("%w: %s %s", errEnded, status, header.Get("Description"))
	}
	if dropped, err := sub.Dropped(); err != nil || dropped > 0 {
		return errors.Join(fmt.Errorf("%d parts of the snapshot were lost", dropped), err)
	}
	return nil
}

// codeStorage is the server's code for a stream whose limits exceed the disk.
const codeStorage jetstream.ErrorCode = 10047

// leastBytes is the smallest limit in bytes that a stream gets on a small disk.
const leastBytes = 64 << 20

func exceedsDisk(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == codeStorage
}

// load makes a stream from its snapshot. On a small disk its limit in bytes is halved until it fits, as when streams
// are made.
func load(ctx context.Context, nc *nats.Conn, s Stream, r io.Reader) error {
	var to reply
	for {
		var err error
		to, err = ask(ctx, nc, "$JS.API.STREAM.RESTORE."+s.Name, struct {
			Config jetstream.StreamConfig `json:"config"`
			State  json.RawMessage        `json:"state"`
		}{s.Config, s.State}, answerTime)
		if exceedsDisk(err) && s.Config.MaxBytes/2 >= leastBytes {
			s.Config.MaxBytes /= 2
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	chunk := make([]byte, chunkSize)
	for {
		n, err := io.ReadFull(r, chunk)
		if n > 0 {
			if _, err := askRaw(ctx, nc, to.DeliverSubject, chunk[:n], answerTime); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	_, err := askRaw(ctx, nc, to.DeliverSubject, nil, indexTime)
	return err
}
