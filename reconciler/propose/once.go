package propose

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// keyLife is how long a request with a key is remembered.
const keyLife = 7 * 24 * time.Hour

// A remembered request has the number of its entry before the commit is made, so that a master that finds it unanswered
// sees in the repo whether there is a commit.
type remembered struct {
	Request []byte               `json:"request"` // digest
	ID      int                  `json:"id"`
	Answer  *api.ScheduleChanged `json:"answer,omitempty"`
}

// once makes a change under a user's key once. The same key with another request is refused.
func (on *session) once(ctx context.Context, user, key string, request []byte,
	do func(id int) (*api.ScheduleChanged, error),
) (*api.ScheduleChanged, error) {
	sum := sha256.Sum256([]byte(user + "\x00" + key))
	name, digest := "key."+hex.EncodeToString(sum[:16]), sha256.Sum256(request)
	r, revision, err := on.recall(ctx, name)
	if err != nil {
		return nil, err
	}
	if revision == 0 {
		r = remembered{Request: digest[:]}
		_, repo, err := on.writer.read(ctx)
		if err != nil {
			return nil, err
		}
		_, last := repo.Made()
		if r.ID, err = on.nextID(ctx, last); err != nil {
			return nil, err
		}
		if revision, err = on.store.Create(ctx, name, marshal(r), jetstream.KeyTTL(keyLife)); err != nil {
			return nil, fmt.Errorf("cannot store the key of the request: %w", err)
		}
	}
	if !bytes.Equal(r.Request, digest[:]) {
		return nil, refuse("409", "the idempotency key was used for another request")
	}
	if r.Answer != nil {
		r.Answer.Repeated = true
		return r.Answer, nil
	}
	out, err := do(r.ID)
	if err != nil {
		// The same request may succeed later, such as after another entry was removed. Until it is refused for good, a
		// try at another master may make the entry with its number.
		if codeOf(err) != api.CodeUnavailable && !errors.Is(err, errLost) {
			return on.release(ctx, name, revision, err)
		}
		return nil, err
	}
	if out.Patch != "" { // nothing was made
		return out, on.store.Delete(ctx, name, jetstream.LastRevision(revision))
	}
	r.Answer = out
	// Update of the bucket cannot set how long a key lives.
	_, err = on.js.Publish(ctx, "$KV."+bucketSchedules+"."+name, marshal(r), jetstream.WithMsgTTL(keyLife),
		jetstream.WithExpectLastSequencePerSubject(revision))
	if err != nil {
		on.o.Log.Warn("answer not stored under the key of its request; a repeated request finds the entry in the repo",
			"err", err)
	}
	return out, nil
}

// release forgets a request that was refused. If another master has answered the same request meanwhile, as one that
// was slow may, its answer holds.
func (on *session) release(
	ctx context.Context, name string, revision uint64, refused error,
) (*api.ScheduleChanged, error) {
	err := on.store.Delete(ctx, name, jetstream.LastRevision(revision))
	if !bucket.IsConflict(err) {
		return nil, errors.Join(refused, err)
	}
	r, _, err := on.recall(ctx, name)
	if err != nil || r.Answer == nil {
		return nil, errors.Join(refused, err)
	}
	r.Answer.Repeated = true
	return r.Answer, nil
}

// recall reads a remembered request. The revision is 0 if there is none.
func (on *session) recall(ctx context.Context, name string) (r remembered, revision uint64, err error) {
	entry, err := on.store.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return r, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(entry.Value(), &r)
	}
	if err != nil {
		return r, 0, fmt.Errorf("cannot read the key of the request: %w", err)
	}
	return r, entry.Revision(), nil
}

// nextID gives the next number of a schedule: above all that were given, and above last, the highest in the repo.
func (on *session) nextID(ctx context.Context, last int) (int, error) {
	for {
		given, revision := 0, uint64(0)
		entry, err := on.store.Get(ctx, "last")
		switch {
		case err == nil:
			revision = entry.Revision()
			if given, err = strconv.Atoi(string(entry.Value())); err != nil {
				return 0, fmt.Errorf("cannot read the last number of a schedule: %w", err)
			}
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return 0, fmt.Errorf("cannot read the last number of a schedule: %w", err)
		}
		id := max(given, last) + 1
		value := []byte(strconv.Itoa(id))
		if revision == 0 {
			_, err = on.store.Create(ctx, "last", value)
		} else {
			_, err = on.store.Update(ctx, "last", value, revision)
		}
		if err == nil {
			return id, nil
		}
		if !bucket.IsConflict(err) {
			return 0, fmt.Errorf("cannot give a number: %w", err)
		}
	}
}
