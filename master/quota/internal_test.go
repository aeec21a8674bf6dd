package quota

import (
	"context"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// A message that is larger than a whole share is kept while it is the newest of its peel.
func TestTheNewestMessageOfAPeelIsKept(t *testing.T) {
	share := amount{messages: 100, bytes: 1000}
	for what, c := range map[string]struct {
		sizes []uint64
		keep  uint64
		over  bool
	}{
		"within the share":        {[]uint64{400, 400}, 0, false},
		"the newest is too large": {[]uint64{10, 10, 2000}, 1, true},
		"half of the share":       {[]uint64{400, 400, 250, 250}, 2, true},
	} {
		if keep, over := kept(c.sizes, share); keep != c.keep || over != c.over {
			t.Errorf("%s: %d, %v, want %d, %v", what, keep, over, c.keep, c.over)
		}
	}
}

// A peel is looked at from more than a sixteenth of the messages or of the bytes on.
func TestAPeelIsLookedAtFromASixteenthOn(t *testing.T) {
	held := map[string]amount{"rest": {messages: 28, bytes: 2000}, "many": {messages: 3, bytes: 20}, "large": {messages: 1, bytes: 200}, "none": {messages: 0, bytes: 0}}
	if got := heaviest(held); !slices.Equal(got, []string{"rest", "many", "large"}) {
		t.Errorf("looked at: %v", got)
	}
	held = map[string]amount{"rest": {messages: 30, bytes: 30}, "exact": {messages: 2, bytes: 2}}
	if got := heaviest(held); !slices.Equal(got, []string{"rest"}) {
		t.Errorf("with exactly a sixteenth: %v", got)
	}
}

// A purged stream has so many messages now, and counts the purges.
type purged struct {
	jetstream.Stream
	messages uint64
	purges   int
}

func (p *purged) Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return full(p.messages), nil
}

func (p *purged) Purge(context.Context, ...jetstream.StreamPurgeOpt) error {
	p.purges++
	return nil
}

func full(messages uint64) *jetstream.StreamInfo {
	return &jetstream.StreamInfo{Config: jetstream.StreamConfig{MaxMsgs: 100}, State: jetstream.StreamState{Msgs: messages}}
}

// A master that wants to purge 20 messages purges nothing if another one has purged more than ten of them meanwhile.
func TestWhatAnotherMasterHasPurgedIsNotPurgedTwice(t *testing.T) {
	for messages, want := range map[uint64]int{90: 1, 80: 1, 79: 0, 70: 0} {
		c := newCut(full(90), nil)
		c.before, c.messages = 21, 20
		stream := purged{messages: messages}
		if err := c.purge(t.Context(), &stream); err != nil || stream.purges != want {
			t.Errorf("at %d messages: %d purges, want %d; %v", messages, stream.purges, want, err)
		}
	}
}
