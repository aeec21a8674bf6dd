package wire

import (
	"crypto/sha256"
	"errors"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Receipt lets anybody with the public key of a peel check what the peel said about a run. Masters store it with the
// return.
type Receipt struct {
	// Number counts the runs of the peel in the order in which they began, also runs without a record. A peel with a
	// new data directory counts from 1.
	Number    uint64 `json:"number"`
	Document  string `json:"document,omitempty"` // digest of the settings in force at the end; empty: there are none
	Signature []byte `json:"signature"`          // of [Statement.Text], by the nkey of the peel's credential
}

// A Statement is all that a receipt is about.
type Statement struct {
	Peel     target.PeelID `json:"peel"`
	JID      JID           `json:"jid"`
	Number   uint64        `json:"number"`
	Document string        `json:"document"`
	Entry    string        `json:"entry"` // empty: a request of a master
	Trigger  Trigger       `json:"trigger"`
	// Call identifies the function with its arguments. It is empty if the peel, started again, does not know them.
	Call     string    `json:"call"`
	Commit   string    `json:"commit"`
	Epoch    uint64    `json:"epoch"`
	Nominal  time.Time `json:"nominal"`
	Fired    time.Time `json:"fired"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Result   []byte    `json:"result"` // SHA-256 of the encoded [Result]
}

// Statement returns what the receipt of a return is about. Its Number and Document are of the receipt.
func (r *Return) Statement(call string) (Statement, error) {
	s := Statement{Peel: r.Peel, JID: r.JID, Call: call, Epoch: r.Epoch, Finished: r.Finished}
	return s, s.about(&r.Result, r.Receipt)
}

// Statement returns what the receipt of a report is about. Its Number and Document are of the receipt.
func (r *ScheduledResult) Statement(call string) (Statement, error) {
	s := Statement{
		Peel: r.Peel, JID: r.JID, Entry: r.Entry, Trigger: r.Trigger, Call: call, Commit: r.Commit,
		Nominal: r.Nominal, Fired: r.Fired, Started: r.Started, Finished: r.Finished,
	}
	return s, s.about(&r.Result, r.Receipt)
}

func (s *Statement) about(result *Result, r *Receipt) error {
	if r == nil {
		return errors.New("there is no receipt")
	}
	data, err := canon.Marshal(result)
	sum := sha256.Sum256(data)
	s.Result, s.Number, s.Document = sum[:], r.Number, r.Document
	return err
}

// Text returns the bytes that a peel signs. The first one occurs in no UTF-8 text: see [KeyProof].
func (s *Statement) Text() ([]byte, error) {
	data, err := canon.Marshal(s)
	return append([]byte("\xffzester receipt 1\n"), data...), err
}

// Signer returns the public nkey, of those given, that signed the statement, "" if none did.
func (s *Statement) Signer(signature []byte, keys []string) string {
	text, err := s.Text()
	if err != nil {
		return ""
	}
	for _, public := range keys {
		if key, err := nkeys.FromPublicKey(public); err == nil && key.Verify(text, signature) == nil {
			return public
		}
	}
	return ""
}
