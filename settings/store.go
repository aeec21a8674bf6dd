package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	loadBatch = 64              // documents per fetch; each is at most MaxDocument bytes
	loadWait  = 5 * time.Second // timeout of one fetch
	readWait  = 8 * time.Second // timeout of one request to the stream's leader
	readPause = 250 * time.Millisecond
)

// Held is the state of one peel's key in the bucket, without the settings themselves.
type Held struct {
	Peel       target.PeelID // empty if Err is set or there is no document
	Digest     Digest
	Commit     Commit
	Generation uint64
	// Revision is the stream's sequence of the last write or deletion of the key, which the next write has to name. 0
	// if the key was never written.
	Revision uint64
	SealedTo Key    // empty if the document has no secrets
	ProvenBy string // the ID of the [ProofKey] of the document's proofs
	// Err says why the stored bytes are not a valid document of this peel; they may be replaced.
	Err error
}

// Heads are the states of all keys, by [target.PeelID.Wire].
type Heads map[string]Held

// Of returns the state of a peel's key, the zero Held if it was never written.
func (h Heads) Of(peel target.PeelID) Held { return h[peel.Wire()] }

// A Store is the master's access to the settings bucket. It reads from the stream's leader only, because on a cluster
// other servers may return old documents. It has no state and is safe for concurrent use.
type Store struct {
	js    jetstream.JetStream
	check func() error // see Checked; may be nil
}

// NewStore returns the store of the bucket [Bucket], which has to exist when the store is used. Connect js with
// nats.ReconnectBufSize(-1), so that a put is not sent later than Publish returns.
func NewStore(js jetstream.JetStream) *Store { return &Store{js: js} }

// Checked returns a store whose Publish calls check right before each send. An error of check ends Publish.
func (s *Store) Checked(check func() error) *Store { return &Store{js: s.js, check: check} }

// A Position is a state of the bucket. If two positions are equal, nothing was written in between.
type Position struct {
	Created time.Time // creation of the bucket's stream
	Last    uint64    // sequence of the last write
}

// Position returns the position of the bucket at the stream's leader.
func (s *Store) Position(ctx context.Context) (Position, error) {
	stream, err := s.js.Stream(ctx, bucketStream)
	if err != nil {
		return Position{}, fmt.Errorf("cannot read the published settings: %w", err)
	}
	info := stream.CachedInfo()
	return Position{info.Created, info.State.LastSeq}, nil
}

// Load returns the state of all keys. It returns every document that existed at the start of the call, or an error; the
// sequence numbers of the consumer reveal a lost message.
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
		// Keys that are purged during the call are never delivered, so pending can be too high.
		info, err := consumer.Info(ctx)
		if err != nil {
			return nil, err
		}
		if r.pending = info.NumPending; r.pending > 0 {
			return nil, fmt.Errorf("the stream stopped with %d documents left", r.pending)
		}
	}
	return r.heads, nil
}

type headReader struct {
	heads   Heads
	read    uint64 // messages received
	pending uint64 // messages left
}

func (r *headReader) add(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	r.read++
	if meta.Sequence.Consumer != r.read {
		return fmt.Errorf("received message %d of the stream instead of %d", meta.Sequence.Consumer, r.read)
	}
	r.pending = meta.NumPending
	token := msg.Subject()[len(keyPrefix):]
	r.heads[token] = head(msg.Headers(), msg.Subject(), msg.Data(), meta.Sequence.Stream)
	return nil
}

func head(header nats.Header, subject string, data []byte, revision uint64) Held {
	d, err := FromMessage(&nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil || d == nil {
		return Held{Revision: revision, Err: err}
	}
	return Held{
		Peel:       d.Peel,
		Digest:     d.Digest,
		Commit:     d.Commit,
		Generation: d.Generation,
		Revision:   revision,
		SealedTo:   d.SealedTo(),
		ProvenBy:   d.ProvenBy,
	}
}

// deleted reports whether a message of a KV bucket marks a deletion, by a client or by the server when a TTL ends.
func deleted(header nats.Header) bool {
	return header.Get("KV-Operation") != "" || header.Get("Nats-Marker-Reason") != ""
}

// Get returns the document of a peel and its revision. If there is none, it returns nil and the revision of the last
// deletion, or 0.
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

// Remove purges the key of a peel, as if it had never been written. Only the master with the lease may call it.
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

// stored is a message in the reply of the stream's leader. Sequence is 0 if there is none.
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

// last returns the newest message of a peel's key from the stream's leader. The client's own functions would ask any
// server, since the bucket allows direct gets.
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
		return nil, errors.New("the reply has no message")
	}
	return answer.Message, nil
}

// request repeats a request while the server starts or the connection is down, until ctx ends.
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

// FromMessage returns the document in a message of the bucket's stream; nil if the message deletes the key.
func FromMessage(msg *nats.Msg) (*Document, error) {
	if deleted(msg.Header) {
		return nil, nil
	}
	token := strings.TrimPrefix(msg.Subject, keyPrefix)
	d, err := decode(msg.Data)
	if err == nil && d.Peel.Wire() != token {
		err = fmt.Errorf("they are for %q", d.Peel)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the settings of %s: %w", token, err)
	}
	return d, nil
}
