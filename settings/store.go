package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	loadBatch = 64              // documents in memory while all are read; of MaxDocument bytes at worst
	loadWait  = 5 * time.Second // for one batch
	readWait  = 8 * time.Second // for one answer of the stream's leader
	readPause = 250 * time.Millisecond
)

// Held is what the bucket holds for one peel, without the settings themselves.
type Held struct {
	Peel       target.PeelID // empty if Err is set or there is no document
	Digest     Digest
	Commit     Commit
	Generation uint64
	// Revision is the stream's sequence of the key's last write, a deletion included: what the next write of the
	// key has to name. 0 if the key was never written.
	Revision uint64
	SealedTo Key    // empty if the document holds no secrets
	ProvenBy string // the ID of the [ProofKey] that made the document's proofs
	// Err says why the stored bytes are no document of this peel; they may be replaced.
	Err error
}

// Heads are the documents that the bucket holds, by the wire form of the peel's ID.
type Heads map[string]Held

// Of returns what is held for a peel, the zero Held if nothing is.
func (h Heads) Of(peel target.PeelID) Held { return h[peel.Wire()] }

// A Store is the master's side of the settings bucket. It reads from the stream's leader only, as decisions are
// made on what it returns: on a cluster other servers may answer with what was there before. It keeps nothing
// between calls, which may come from several goroutines.
type Store struct {
	js    jetstream.JetStream
	check func() error // see Checked; if nil, nothing is checked
}

// NewStore returns the store over the bucket [Bucket], which has to exist when it is used. A put that failed while
// the connection of js was away must not be sent later: connect with nats.ReconnectBufSize(-1).
func NewStore(js jetstream.JetStream) *Store { return &Store{js: js} }

// Checked returns a store whose Publish calls check right before it sends a document, also before it sends one again. An
// error of check ends Publish.
func (s *Store) Checked(check func() error) *Store { return &Store{js: s.js, check: check} }

// A Position is a state of the bucket. Nothing was written between two readings that are equal.
type Position struct {
	Created time.Time // of the bucket's stream: it may have been made anew
	Last    uint64    // sequence of the last write
}

// Position asks the stream's leader where the bucket stands.
func (s *Store) Position(ctx context.Context) (Position, error) {
	stream, err := s.js.Stream(ctx, bucketStream)
	if err != nil {
		return Position{}, fmt.Errorf("cannot read the published settings: %w", err)
	}
	info := stream.CachedInfo()
	return Position{info.Created, info.State.LastSeq}, nil
}

// Load reads what the bucket holds for all peels. It either returns all that was there when it began, or an error:
// a document that gets lost on the way is noticed by the consumer's numbering.
func (s *Store) Load(ctx context.Context) (Heads, error) {
	heads, err := s.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read the published settings: %w", err)
	}
	return heads, nil
}

func (s *Store) load(ctx context.Context) (heads Heads, err error) {
	stream, err := s.js.Stream(ctx, bucketStream)
	if err != nil {
		return nil, err
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: time.Minute, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if gone := stream.DeleteConsumer(ctx, consumer.CachedInfo().Name); err == nil && gone != nil {
			err = gone
		}
	}()
	r := headReader{heads: Heads{}, pending: consumer.CachedInfo().NumPending}
	for r.pending > 0 {
		batch, err := consumer.Fetch(int(min(r.pending, loadBatch)), jetstream.FetchMaxWait(loadWait))
		if err != nil {
			return nil, err
		}
		before := r.read
		for msg := range batch.Messages() {
			if err := r.add(msg); err != nil {
				return nil, err
			}
		}
		if err := batch.Error(); err != nil {
			return nil, err
		}
		if r.read > before {
			continue
		}
		// Keys that are purged meanwhile are never delivered, so the count of the last message can be too high.
		info, err := consumer.Info(ctx)
		if err != nil {
			return nil, err
		}
		if r.pending = info.NumPending; r.pending > 0 {
			return nil, fmt.Errorf("the stream stopped with %d documents to come", r.pending)
		}
	}
	return r.heads, nil
}

type headReader struct {
	heads   Heads
	read    uint64 // messages so far
	pending uint64 // messages to come
}

func (r *headReader) add(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	r.read++
	if meta.Sequence.Consumer != r.read {
		return fmt.Errorf("message %d of the stream came in place of %d", meta.Sequence.Consumer, r.read)
	}
	r.pending = meta.NumPending
	token := msg.Subject()[len(keyPrefix):]
	r.heads[token] = head(token, msg.Headers(), msg.Data(), meta.Sequence.Stream)
	return nil
}

func head(token string, header nats.Header, data []byte, revision uint64) Held {
	if deleted(header) {
		return Held{Revision: revision}
	}
	d, err := decode(data)
	if err == nil && d.Peel.Wire() != token {
		err = fmt.Errorf("they are for %q", d.Peel)
	}
	if err != nil {
		return Held{Revision: revision, Err: fmt.Errorf("cannot read the settings of %s: %w", token, err)}
	}
	return Held{
		Peel: d.Peel, Digest: d.Digest, Commit: d.Commit, Generation: d.Generation, Revision: revision, SealedTo: d.SealedTo(),
		ProvenBy: d.ProvenBy,
	}
}

// deleted reports whether a message of a KV bucket is the mark of a deletion: by a client, or by the server at the
// end of a time to live.
func deleted(header nats.Header) bool {
	return header.Get("KV-Operation") != "" || header.Get("Nats-Marker-Reason") != ""
}

// Get returns the document of a peel and its revision, nil and the revision of the last deletion (or 0) if there is
// none.
func (s *Store) Get(ctx context.Context, peel target.PeelID) (*Document, uint64, error) {
	msg, err := s.last(ctx, peel)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the published settings of %s: %w", peel, err)
	}
	if msg.Sequence == 0 || msg.deleted() {
		return nil, msg.Sequence, nil
	}
	d, err := Decode(msg.Data, peel)
	return d, msg.Sequence, err
}

// Remove takes away all that the bucket holds for a peel, as if nothing had ever been written for it. Only who leads may
// do so.
func (s *Store) Remove(ctx context.Context, peel target.PeelID) error {
	stream, err := s.js.Stream(ctx, bucketStream)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(keySubject(peel)))
	}
	if err != nil {
		return fmt.Errorf("cannot remove the settings of %s: %w", peel, err)
	}
	return nil
}

// stored is a message as the stream's leader tells it. Sequence is 0 if there is none.
type stored struct {
	Sequence uint64 `json:"seq"`
	Header   []byte `json:"hdrs"`
	Data     []byte `json:"data"`
}

func (m *stored) deleted() bool {
	if len(m.Header) == 0 {
		return false
	}
	header, err := nats.DecodeHeadersMsg(m.Header)
	return err == nil && deleted(header)
}

// last reads the newest message of a peel's key. The client's own functions would let any server answer, since
// the bucket allows that to peels.
func (s *Store) last(ctx context.Context, peel target.PeelID) (*stored, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	ask, err := json.Marshal(map[string]string{"last_by_subj": keySubject(peel)})
	if err != nil {
		return nil, err
	}
	msg, err := s.request(ctx, "$JS.API.STREAM.MSG.GET."+bucketStream, ask)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *stored             `json:"message"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return nil, err
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return new(stored), nil
	case answer.Error != nil:
		return nil, answer.Error
	case answer.Message == nil || answer.Message.Sequence == 0:
		return nil, errors.New("the answer holds no message")
	}
	return answer.Message, nil
}

// request asks again while the server starts or the connection comes back, so that a restart does not end what is
// under way.
func (s *Store) request(ctx context.Context, subject string, ask []byte) (*nats.Msg, error) {
	for {
		msg, err := s.js.Conn().RequestWithContext(ctx, subject, ask)
		if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, nats.ErrReconnectBufExceeded) {
			return msg, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(readPause):
		}
	}
}
