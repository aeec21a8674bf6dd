package bucket

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// answerBytes is the size at which the server ends a reply; the rest is requested again.
	answerBytes = 4 << 20
	// answerSubjects is how many messages the server gives in one answer.
	answerSubjects = 1024
	answerWait     = 5 * time.Second // for the next message
)

// A Message is a stored message of a stream.
type Message struct {
	Data     []byte
	Stored   time.Time // on the bus's clock
	Sequence uint64
}

// Newest reads the newest message of each subject of a stream that allows direct reading. Subjects without a message
// are missing in the result. It takes one request, unless the messages are large.
func Newest(ctx context.Context, nc *nats.Conn, stream string, subjects []string) (map[string]Message, error) {
	found := make(map[string]Message, len(subjects))
	for part := range slices.Chunk(subjects, answerSubjects) {
		for len(part) > 0 {
			more, err := ask(ctx, nc, stream, part, found)
			if err != nil {
				return nil, err
			}
			before := len(part)
			part = slices.DeleteFunc(slices.Clone(part), func(subject string) bool {
				_, ok := found[subject]
				return ok
			})
			if !more || len(part) == before {
				break // what is left is not there, or not to be read
			}
		}
	}
	return found, nil
}

// ask puts what the server answers at once into found, and reports whether there is more.
func ask(ctx context.Context, nc *nats.Conn, stream string, subjects []string,
	found map[string]Message,
) (more bool, err error) {
	question, err := json.Marshal(map[string]any{"multi_last": subjects, "max_bytes": answerBytes})
	if err != nil {
		return false, err
	}
	inbox := nc.NewInbox()
	answers := make(chan *nats.Msg, len(subjects)+1) // one for each, and one that says that there are no more
	sub, err := nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return false, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, question); err != nil {
		return false, err
	}
	return gather(ctx, answers, found)
}

// gather puts answers into found until the server says that it has given all, and whether there is more to ask for.
func gather(ctx context.Context, answers <-chan *nats.Msg, found map[string]Message) (more bool, err error) {
	silence := time.NewTimer(answerWait)
	defer silence.Stop()
	for {
		var msg *nats.Msg
		select {
		case msg = <-answers:
			silence.Reset(answerWait)
		case <-silence.C:
			return false, nats.ErrTimeout
		case <-ctx.Done():
			return false, ctx.Err()
		}
		// A peel may have put any header into what it said. What the server adds comes behind.
		if subject := ServerHeader(msg.Header, "Nats-Subject"); subject != "" {
			at, err := time.Parse(time.RFC3339Nano, ServerHeader(msg.Header, "Nats-Time-Stamp"))
			if err != nil {
				return false, fmt.Errorf("the answer for %s: %w", subject, err)
			}
			sequence, err := strconv.ParseUint(ServerHeader(msg.Header, jetstream.SequenceHeader), 10, 64)
			if err != nil {
				return false, fmt.Errorf("the answer for %s: %w", subject, err)
			}
			found[subject] = Message{msg.Data, at, sequence}
			continue
		}
		switch status := msg.Header.Get("Status"); {
		case status == "":
			// A message whose headers cannot be read; who sent it has said nothing.
		case status == "204":
			return msg.Header.Get("Nats-Num-Pending") != "0", nil
		case status == "404" && msg.Header.Get("Description") == "No Results":
			return false, nil
		case status == "503":
			return false, nats.ErrNoResponders
		default:
			return false, fmt.Errorf("the bus answers %s %s", status, msg.Header.Get("Description"))
		}
	}
}

// ServerHeader returns the value that the server has given a header. A peel may have put any header into its message;
// what the server adds comes behind.
func ServerHeader(h nats.Header, key string) string {
	values := h[key]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
