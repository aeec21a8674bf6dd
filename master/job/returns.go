package job

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// newestReturns reads the newest message of each subject, by subject. Subjects without a message are left out.
func (s *Store) newestReturns(ctx context.Context, subjects []string) (map[string]bucket.Message, error) {
	return retryTransient(ctx, func() (map[string]bucket.Message, error) {
		return bucket.Newest(ctx, s.js.Conn(), wire.KV(wire.BucketJobReturns), subjects)
	})
}

// ReadReturn decodes the stored return of a target. The bus stores whatever a peel publishes first, and nothing after
// it. A return that is damaged or contradicts its subject is read as a failed one whose error says so.
func ReadReturn(jid wire.JID, id target.PeelID, data []byte) *wire.Return {
	receipt, err := ReadReceipt(jid, id, data)
	if err != nil {
		return &wire.Return{
			JID:    jid,
			Peel:   id,
			Result: wire.Result{Error: "the return is damaged: " + err.Error()},
			V:      wire.Version,
		}
	}
	r := new(wire.Return)
	if err := canon.Unmarshal(data, r); err != nil {
		result := wire.Result{
			Success: receipt.Success,
			Outcome: receipt.Outcome,
			Error:   "the data of the return is damaged: " + err.Error(),
		}
		return &wire.Return{JID: jid, Peel: id, Result: result, V: wire.Version}
	}
	return r
}

// A Receipt is a return without its data: what the owner of a job counts.
type Receipt struct {
	JID      wire.JID      `json:"jid"`
	Peel     target.PeelID `json:"peel_id"`
	Success  bool          `json:"success"`
	Outcome  wire.Outcome  `json:"outcome"`
	Data     canon.Skipped `json:"data"`
	Error    string        `json:"error"`
	Duration time.Duration `json:"duration"`
	Epoch    uint64        `json:"epoch"`
	Finished time.Time     `json:"timestamp"`
	V        int           `json:"v"`
}

// ReadReceipt decodes the stored return of a target without its data. The error says why the return is damaged; then it
// counts as a failed one.
func ReadReceipt(jid wire.JID, id target.PeelID, data []byte) (Receipt, error) {
	var r Receipt
	if len(data) > MaxReturn {
		return r, fmt.Errorf("%d bytes, the limit is %d", len(data), MaxReturn)
	}
	err := canon.Unmarshal(data, &r)
	switch {
	case err != nil:
	case r.JID != jid:
		err = fmt.Errorf("%w: it names job %q", wire.ErrForged, r.JID)
	case r.Peel != id:
		err = fmt.Errorf("%w: it names peel %q", wire.ErrForged, r.Peel)
	case r.V > wire.Version:
		err = fmt.Errorf("protocol version %d, this build knows up to %d", r.V, wire.Version)
	case r.Success && r.Outcome != "":
		err = fmt.Errorf("it is a success that is %q", r.Outcome)
	}
	if err != nil {
		return Receipt{}, err
	}
	return r, nil
}

// returnsAtOnce is how many returns are on their way from the bucket.
const returnsAtOnce = 64

// A StoredReturn is a return as it is in the bucket.
type StoredReturn struct {
	Sender   string // wire ID of the peel
	Sequence uint64 // in the stream of the bucket
	Data     []byte // as the peel published it, see [ReadReturn]
}

// Republished returns the return in a message on [wire.StoredOf].
func Republished(msg *nats.Msg) StoredReturn {
	sequence, _ := strconv.ParseUint(bucket.ServerHeader(msg.Header, jetstream.SequenceHeader), 10, 64)
	return StoredReturn{wire.Sender(msg.Subject), sequence, msg.Data}
}

// Stored calls got for every return of a job that is in the bucket, in the order in which they were stored.
func (s *Store) Stored(ctx context.Context, jid wire.JID, got func(StoredReturn)) (err error) {
	defer wrap(&err, "cannot read the returns of job %s", jid)
	// A header of a peel that marks its return as deleted means nothing, so this does not read as a KV bucket does.
	return bucket.Drain(ctx, s.js, wire.KV(wire.BucketJobReturns), jetstream.ConsumerConfig{
		FilterSubject: returnPrefix + string(jid) + ".*", MaxRequestBatch: returnsAtOnce,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (more bool) {
		got(StoredReturn{wire.Sender(m.Subject()), meta.Sequence.Stream, m.Data()})
		return true
	})
}

// CountStored returns how many peels have a return of a job in the bucket.
func (s *Store) CountStored(ctx context.Context, jid wire.JID) (int, error) {
	stored, err := subjects(ctx, s.returns, returnPrefix+string(jid)+".*")
	if err != nil {
		return 0, fmt.Errorf("cannot count the returns of job %s: %w", jid, err)
	}
	return len(stored), nil
}

// ReturnMessage returns the message that stores the return of a peel for a job, unless one is stored. It is for senders
// that read the answer of the bucket's stream themselves.
func ReturnMessage(jid wire.JID, peel target.PeelID, data []byte) *nats.Msg {
	return create(returnSubject(jid, peel), data)
}

// returnPrefix begins the subjects of the bucket.
const returnPrefix = "$KV." + wire.BucketJobReturns + "."

// returnSubject is where a return is stored. Peels whose IDs have the same wire form share it, and are one peel on the
// bus.
func returnSubject(jid wire.JID, peel target.PeelID) string {
	return returnPrefix + string(jid) + "." + peel.Wire()
}
