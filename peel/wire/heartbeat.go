package wire

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Bounds of the time between two heartbeats of a peel, whatever a master announces.
const (
	MinHeartbeat = 30 * time.Second // of a peel to which no master has announced an interval, too
	MaxHeartbeat = 10 * time.Minute
)

const (
	maxInstance = 32                        // bytes of the name of a peel's process
	maxBeat     = maxInstance + len(" 600") // bytes of a heartbeat
)

// NewInstance returns a new name for a process of a peel.
func NewInstance() string { return rand.Text() }

// A Beat is what a heartbeat says.
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

// DecodeHeartbeat returns false for a message that is no heartbeat. Anybody may direct the server's and the masters' answers
// to any subject, but those have headers, or a payload that is not a name of letters and digits.
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
	instance, seconds, told := strings.Cut(string(msg.Data), " ")
	if told {
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

// intervalHeader is the header of a master's answer to a heartbeat. [Decode] and [DecodeHeartbeat] refuse messages that have
// it, as the answer goes wherever a peel has it sent.
const intervalHeader = "Zester-Heartbeat-Seconds"

// NewInterval returns the answer to a heartbeat that announces the time between two heartbeats, in whole seconds.
func NewInterval(every time.Duration) *nats.Msg {
	return &nats.Msg{Header: nats.Header{intervalHeader: {strconv.Itoa(int(every / time.Second))}}}
}

// DecodeInterval returns the time between two heartbeats that a master announces, within [MinHeartbeat] and [MaxHeartbeat].
func DecodeInterval(msg *nats.Msg) (time.Duration, error) {
	text := msg.Header.Get(intervalHeader)
	seconds, err := strconv.ParseUint(text, 10, 32)
	if err != nil || seconds == 0 {
		return 0, fmt.Errorf("cannot read %s: %.20q is no number of seconds between two heartbeats", msg.Subject, text)
	}
	return min(max(time.Duration(seconds)*time.Second, MinHeartbeat), MaxHeartbeat), nil
}
