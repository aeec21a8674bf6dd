package wire

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// waitsHeader holds how long the caller of a request still waits for the reply, in milliseconds. It is no time of day,
// as the clocks of two hosts may differ.
const waitsHeader = "Zester-Waits"

// maxWaits bounds what a caller may say.
const maxWaits = 24 * time.Hour

// SetCallerWaits puts into the header of a request how long its caller waits.
func SetCallerWaits(h nats.Header, d time.Duration) {
	h.Set(waitsHeader, strconv.FormatInt(d.Milliseconds(), 10))
}

// CallerWaits returns until when the caller of a request waits that was received at a time; zero if it did not say, or
// nothing valid.
func CallerWaits(h nats.Header, received time.Time) time.Time {
	ms, err := strconv.ParseInt(h.Get(waitsHeader), 10, 64)
	if err != nil || ms < 0 || ms > maxWaits.Milliseconds() {
		return time.Time{}
	}
	return received.Add(time.Duration(ms) * time.Millisecond)
}
