package wire

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Bounds of the time between two heartbeats of a peel. An interval that a master announces is moved to the nearer
// bound.
const (
	MinHeartbeat = 30 * time.Second // also the interval of a peel to which no master has announced one
	MaxHeartbeat = 10 * time.Minute
)

const (
	maxInstance = 32                        // bytes of the name of a peel's process
	maxBeat     = maxInstance + len(" 600") // bytes of a heartbeat
)

// NewInstance returns a random name for one process of a peel.
func NewInstance() string { return rand.Text() }

// A Beat is the content of a heartbeat.
type Beat struct {
	Instance string        // the process that sent it; empty for a peel of an earlier version
	Every    time.Duration // until the next one, ± 10 %
}

// Encode returns the payload of a heartbeat: the instance, and the interval in seconds if it is not [MinHeartbeat].
func (b Beat) Encode() []byte {
	if b.Every == MinHeartbeat {
		return []byte(b.Instance)
	}
	return fmt.Appendf(nil, "%s %d", b.Instance, b.Every/time.Second)
}

// DecodeHeartbeat decodes a heartbeat. ok is false if the message is none. Every client can direct replies of the
// server and of masters to any subject, but these have headers, or a payload that is not a name of letters and digits.
func DecodeHeartbeat(msg *nats.Msg) (b Beat, ok bool) {
	for name := range msg.Header {
		if name != "Nats-Request-Info" {
			return Beat{}, false
		}
	}
	if len(msg.Data) > maxBeat {
		return Beat{}, false
	}
	b.Every = MinHeartbeat
	instance, seconds, announced := strings.Cut(string(msg.Data), " ")
	if announced {
		n, err := strconv.ParseUint(seconds, 10, 16)
		b.Every = time.Duration(n) * time.Second
		if err != nil || b.Every <= MinHeartbeat || b.Every > MaxHeartbeat {
			return Beat{}, false
		}
	}
	for _, c := range []byte(instance) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return Beat{}, false
		}
	}
	b.Instance = instance
	return b, len(instance) <= maxInstance
}

// intervalHeader is the header of a master's reply to a heartbeat. [Decode] and [DecodeHeartbeat] refuse messages with
// it, because a peel chooses the subject of the reply.
const intervalHeader = "Zester-Heartbeat-Seconds"

// NewInterval returns the reply to a heartbeat, which announces the time between two heartbeats, in whole seconds.
func NewInterval(every time.Duration) *nats.Msg {
	return &nats.Msg{Header: nats.Header{intervalHeader: {strconv.Itoa(int(every / time.Second))}}}
}

// DecodeInterval returns the time between two heartbeats that a master announces, within [MinHeartbeat] and
// [MaxHeartbeat].
func DecodeInterval(msg *nats.Msg) (time.Duration, error) {
	text := msg.Header.Get(intervalHeader)
	seconds, err := strconv.ParseUint(text, 10, 32)
	if err != nil || seconds == 0 {
		return 0, fmt.Errorf("cannot read %s: %.20q is no number of seconds between two heartbeats", msg.Subject, text)
	}
	return min(max(time.Duration(seconds)*time.Second, MinHeartbeat), MaxHeartbeat), nil
}
