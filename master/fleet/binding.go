package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// wire.BucketIdentities is the bucket with the [Binding] of each peel, by wire ID.
// maxBindAttempts bounds the attempts to write a binding that other masters write too.
const maxBindAttempts = 20

// A Binding ties a name on the bus to a peel and to the key to which its secrets are sealed.
type Binding struct {
	ID  target.PeelID `json:"id"`
	Key string        `json:"key,omitempty"` // public X25519 key; empty: none yet
	// Identity is the public nkey that the peel's credential had when Key was bound; empty: masters did not know it.
	Identity string    `json:"identity,omitempty"`
	By       string    `json:"by"` // the user who approved Key; "peel": its nkey signed it; "first use"; "settings"
	Since    time.Time `json:"since"`
}

// A Registration has the credentials that masters issued to a peel. It is zero for a peel whose credentials were issued
// elsewhere.
type Registration struct {
	ID    target.PeelID
	Keys  []string // public nkeys of its credentials, the newest last; none: all were revoked
	Ended []string // public nkeys that were revoked
	// Sealed is the key to which its settings are sealed now; empty if it has no settings, or settings without secrets.
	Sealed string
}

var (
	// ErrRefused: the wire ID of the facts belongs to another peel, or the masters cannot read to which.
	ErrRefused = errors.New("not accepted")
	// ErrNoKey: this sealing key does not wait for an approval.
	ErrNoKey = errors.New("the peel does not wait with this sealing key")
)

// UseRegister sets the function that looks up the registration of a peel. Call it before Run; without it no peel is
// registered. If lookup returns [ErrRefused], the facts of the peel are refused; after any other error the feed
// retries.
func (f *Fleet) UseRegister(lookup func(ctx context.Context, wireID string) (Registration, error)) {
	f.lookup = lookup
}

// bound is a binding with its revision in the bucket.
type bound struct {
	Binding
	revision uint64 // 0: it is not in the bucket
	damaged  error  // why the entry cannot be decoded; nil: Binding has its value
}

// bindings are the content of the bucket and the sealing keys in facts.
type bindings struct {
	inFacts map[string]string  // the sealing keys in the newest facts, by wire ID
	known   map[string]bound   // by wire ID
	made    time.Time          // when the bucket was created
	at      uint64             // the newest revision that was read
	bucket  jetstream.KeyValue // nil before it is first used
}

// Key returns the key to which secrets of a peel are sealed; empty if there is none yet. The key in its facts is bound
// if the nkey of the peel has signed it, or if it is the first one and masters do not know the nkey. From then on it
// changes only if a person approves another one ([Fleet.ApproveKey]), or enrolls the host again with another nkey.
func (f *Fleet) Key(id target.PeelID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.bound.known[id.Wire()]; b.ID == id {
		return b.Key
	}
	return ""
}

// PendingKey returns the key in the peel's newest facts if it is not the bound one.
func (f *Fleet) PendingKey(id target.PeelID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := id.Wire()
	if key := f.bound.inFacts[w]; f.ids[w] == id && key != f.bound.known[w].Key {
		return key
	}
	return ""
}

// admit checks the facts of a peel against its registration and binds its key. An error other than [ErrRefused] is an
// error of the store: the facts are neither accepted nor refused.
func (f *Fleet) admit(ctx context.Context, facts wire.Facts) error {
	w := facts.Peel.Wire()
	for range maxBindAttempts {
		f.mu.Lock()
		now := f.bound.known[w]
		f.mu.Unlock()
		if now.damaged != nil {
			return fmt.Errorf("%w: %w", ErrRefused, now.damaged)
		}
		if now.ID == facts.Peel && (facts.Key == "" || facts.Key == now.Key) {
			return nil
		}
		next, err := f.bindingAfter(ctx, now.Binding, facts)
		if err != nil {
			return err
		}
		if next == now.Binding {
			return nil
		}
		if err = f.bind(ctx, w, now.revision, next); !bucket.IsConflict(err) {
			return err
		}
		if err := f.refreshBindings(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("cannot bind the key of %s: masters changed it in each of %d attempts", facts.Peel,
		maxBindAttempts)
}

// bindingAfter returns the binding of a peel after its facts.
func (f *Fleet) bindingAfter(ctx context.Context, now Binding, facts wire.Facts) (Binding, error) {
	r, err := f.lookup(ctx, facts.Peel.Wire())
	if err != nil {
		return now, fmt.Errorf("cannot look up the peel %s: %w", facts.Peel, err)
	}
	registered := r.ID
	if registered == "" {
		registered = now.ID
	}
	if registered != "" && registered != facts.Peel {
		return now, fmt.Errorf("%w: the facts are from %s, and the peel with this wire ID is %s", ErrRefused,
			facts.Peel, registered)
	}
	if now.ID != facts.Peel {
		// the name was bound to a peel that is not registered
		now = Binding{ID: facts.Peel, By: "first use", Since: time.Now().UTC()}
	}
	next := Binding{ID: facts.Peel, Key: facts.Key, Since: time.Now().UTC()}
	if len(r.Keys) > 0 {
		next.Identity = r.Keys[len(r.Keys)-1]
	}
	if signer := facts.Signer(r.Keys); signer != "" {
		next.Identity, next.By = signer, "peel"
	}
	again := next.By == "peel" && now.Identity != "" && next.Identity != now.Identity &&
		slices.Contains(r.Ended, now.Identity)
	switch {
	case facts.Key == "" || facts.Key == now.Key:
		return now, nil
	case now.Key != "" && !again:
		return now, nil // it waits for the approval of a person
	case next.By != "":
	case r.ID == "":
		next.By = "first use"
	case facts.Key == r.Sealed:
		next.By = "settings" // a peel of a version that does not sign, whose settings are sealed to this key already
	default:
		return now, nil
	}
	return next, nil
}

// bind replaces the binding that has the given revision. [bucket.IsConflict] is true of the error if the
// binding was changed since.
func (f *Fleet) bind(ctx context.Context, w string, revision uint64, next Binding) error {
	kv, err := f.bindings(ctx)
	if err != nil {
		return err
	}
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if revision == 0 {
		revision, err = kv.Create(ctx, w, data)
	} else {
		revision, err = kv.Update(ctx, w, data, revision)
	}
	if err != nil {
		return fmt.Errorf("cannot store the identity of %s: %w", next.ID, err)
	}
	f.mu.Lock()
	before := f.bound.known[w].Key
	if revision > f.bound.at { // else readBindings has read this write already, and perhaps a newer one
		f.bound.known[w] = bound{Binding: next, revision: revision}
	}
	f.mu.Unlock()
	if before != "" {
		f.log.Info("sealing key of a peel changed", "peel", next.ID, "key", next.Key, "before", before, "by", next.By)
	}
	return nil
}

// ApproveKey binds the key in the newest facts of a peel. The person by has compared it with the key on the host. The
// error is [ErrNoKey] if the facts have another key or this one is bound already.
func (f *Fleet) ApproveKey(ctx context.Context, id target.PeelID, key, by string) error {
	if err := f.refreshBindings(ctx); err != nil {
		return err
	}
	if pending := f.PendingKey(id); pending == "" || pending != key {
		return fmt.Errorf("%w: %s", ErrNoKey, id)
	}
	r, err := f.lookup(ctx, id.Wire())
	if err != nil {
		return err
	}
	next := Binding{ID: id, Key: key, By: by, Since: time.Now().UTC()}
	if len(r.Keys) > 0 {
		next.Identity = r.Keys[len(r.Keys)-1]
	}
	f.mu.Lock()
	revision := f.bound.known[id.Wire()].revision
	f.mu.Unlock()
	err = f.bind(ctx, id.Wire(), revision, next)
	f.changed()
	return err
}

// Unbind removes the binding of a peel that a person removes.
func (f *Fleet) Unbind(ctx context.Context, id target.PeelID) error {
	kv, err := f.bindings(ctx)
	if err == nil {
		err = kv.Delete(ctx, id.Wire())
	}
	if err != nil {
		return fmt.Errorf("cannot remove the identity of %s: %w", id, err)
	}
	return f.refreshBindings(ctx)
}

// bindings returns the bucket. The names of its streams and subjects stay the same if it is made anew.
func (f *Fleet) bindings(ctx context.Context) (jetstream.KeyValue, error) {
	f.mu.Lock()
	kv := f.bound.bucket
	f.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	js, err := jetstream.New(f.nc)
	if err != nil {
		return nil, err
	}
	kv, err = js.KeyValue(ctx, wire.BucketIdentities)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", wire.BucketIdentities, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bound.bucket = kv
	return kv, nil
}

// refreshBindings reads the changes in the bucket since the last call.
func (f *Fleet) refreshBindings(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := f.readBindings(ctx); err != nil {
		return fmt.Errorf("cannot read the bucket %s: %w", wire.BucketIdentities, err)
	}
	return nil
}

func (f *Fleet) readBindings(ctx context.Context) error {
	kv, err := f.bindings(ctx)
	if err != nil {
		return err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return err
	}
	info := status.(*jetstream.KeyValueBucketStatus).StreamInfo()
	f.mu.Lock()
	if !info.Created.Equal(f.bound.made) || info.State.LastSeq < f.bound.at {
		f.bound.known, f.bound.made, f.bound.at = map[string]bound{}, info.Created, 0 // it is another bucket
	}
	from := f.bound.at + 1
	f.mu.Unlock()
	if info.State.LastSeq < from {
		return nil
	}
	watcher, err := kv.WatchAll(ctx, jetstream.ResumeFromRevision(from))
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, ok := <-watcher.Updates():
			if !ok {
				return errors.New("the server stopped sending the entries")
			}
			if e == nil {
				f.changed()
				return nil
			}
			f.onBinding(e)
		}
	}
}

// onBinding records an entry of the bucket. An entry that cannot be decoded affects only its peel.
func (f *Fleet) onBinding(e jetstream.KeyValueEntry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bound.at = max(f.bound.at, e.Revision())
	if e.Operation() != jetstream.KeyValuePut {
		delete(f.bound.known, e.Key())
		return
	}
	if e.Revision() < f.bound.known[e.Key()].revision {
		return
	}
	b := bound{revision: e.Revision()}
	var err error
	if b.Binding, err = decodeBinding(e.Key(), e.Value()); err != nil {
		b.damaged = fmt.Errorf("the entry %s in the bucket %s cannot be read: %w", e.Key(), wire.BucketIdentities, err)
	}
	f.bound.known[e.Key()] = b
}

// decodeBinding reads the binding of the peel with a wire ID.
func decodeBinding(wireID string, data []byte) (b Binding, err error) {
	if err := json.Unmarshal(data, &b); err != nil {
		return Binding{}, err
	}
	if b.ID.Wire() != wireID {
		return Binding{}, fmt.Errorf("it belongs to %q", b.ID)
	}
	return b, nil
}
