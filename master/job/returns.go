package job

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Return reads what a peel returned for a job, nil if nothing is stored.
func (s *Store) Return(ctx context.Context, jid wire.JID, peel target.PeelID) (*wire.Return, error) {
	entry, err := s.returns.Get(ctx, returnKey(jid, peel))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the return of %s for job %s: %w", peel, jid, err)
	}
	return decodeStored(jid, peel, entry.Value())
}

// decodeStored reads a return that a master has checked.
func decodeStored(jid wire.JID, peel target.PeelID, data []byte) (*wire.Return, error) {
	r, err := wire.DecodeReturn(&nats.Msg{Subject: wire.ReturnOf(jid, peel.Wire()), Data: data})
	if err != nil {
		return nil, fmt.Errorf("cannot read the return of %s for job %s: %w", peel, jid, err)
	}
	return &r, nil
}

// DecodeReturn reads what the target id returned, after the checks that hold for every return of a job.
func DecodeReturn(msg *nats.Msg, id target.PeelID) (wire.Return, error) {
	if len(msg.Data) > MaxReturn {
		return wire.Return{}, fmt.Errorf("cannot accept %s: %d bytes, the limit is %d", msg.Subject, len(msg.Data), MaxReturn)
	}
	r, err := wire.DecodeReturn(msg)
	switch {
	case err != nil:
		return r, err
	case r.Peel != id:
		return r, fmt.Errorf("cannot accept %s: %w: it speaks for %q, the target is %q", msg.Subject, wire.ErrForged, r.Peel, id)
	case r.Success && r.Outcome != "":
		return r, fmt.Errorf("cannot accept %s: a success that is %q", msg.Subject, r.Outcome)
	}
	return r, nil
}

// Stored calls heard for every return of a job that is in the bucket.
func (s *Store) Stored(ctx context.Context, jid wire.JID, heard func(*nats.Msg)) error {
	err := bucket.Read(ctx, s.js, returnsBucket, string(jid)+".*", func(key string, value []byte) error {
		_, peel, _ := strings.Cut(key, ".")
		heard(&nats.Msg{Subject: wire.ReturnOf(jid, peel), Data: value})
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot read the returns of job %s: %w", jid, err)
	}
	return nil
}

// Count says how a job stands by the returns that are in the bucket.
func (s *Store) Count(ctx context.Context, j *Job) (End, error) {
	end := End{Targets: j.TargetCount, Canceled: j.Cancel != nil}
	targets := make(map[string]target.PeelID, len(j.Targets))
	for _, id := range j.Targets {
		targets[id.Wire()] = id
	}
	err := s.Stored(ctx, j.JID, func(msg *nats.Msg) {
		r, err := DecodeReturn(msg, targets[wire.Sender(msg.Subject)])
		if err != nil {
			return
		}
		end.Returned++
		if r.Success {
			end.Succeeded++
		}
		if r.Outcome == wire.Canceled {
			end.Stopped++
		}
	})
	return end, err
}

// ReturnMessage is the message that stores what a peel returned for a job, for who waits for the acknowledgement of
// the bucket's stream himself. The first one stays; [Kept] reads the acknowledgement.
func ReturnMessage(jid wire.JID, peel target.PeelID, data []byte) *nats.Msg {
	return create(returnSubject(jid, peel), data)
}

// Kept returns nil if the answer of a stream to a [ReturnMessage] says that a return of the peel is in the bucket, this one
// or one from before. One that is on its way there does not count: it may still be lost.
func Kept(answer *nats.Msg) error {
	_, err := readAnswer(answer)
	return err
}

func returnSubject(jid wire.JID, peel target.PeelID) string {
	return "$KV." + returnsBucket + "." + returnKey(jid, peel)
}

// returnKey is the key of a return. Peels whose IDs have the same wire form share it, and are one peel on the bus.
func returnKey(jid wire.JID, peel target.PeelID) string { return string(jid) + "." + peel.Wire() }
