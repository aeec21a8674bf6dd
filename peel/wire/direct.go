package wire

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxDirect bounds the time that a caller may wait for the answer to a direct request.
const MaxDirect = 10 * time.Minute

// Direct returns the subject on which a person sends a request to one peel without a master. Peel and user may be "*".
func Direct(peel, user string) string { return "zester.direct." + peel + "." + user }

// AnswerOf returns the subject on which a peel answers one direct request of a person. The person's client chooses the
// id, a single token, and gives the subject as the reply subject of the request. All three may be "*". The prefix is
// fixed, so that a peel needs no permission to publish to subjects that others choose.
func AnswerOf(user, id, peel string) string { return "zester.answer." + user + "." + id + "." + peel }

// A DirectRequest asks one peel to run a function now. There is no job: only the peel's log records the request,
// nothing is sent again, and only the caller gets the answer.
type DirectRequest struct {
	Function string         `json:"function"`
	ID       string         `json:"id,omitempty"` // as in [Request]
	Args     map[string]any `json:"args,omitempty"`
	TimeLeft time.Duration  `json:"time_left"` // the peel refuses work that would start later; at most [MaxDirect]
	V        int            `json:"v"`
}

// A DirectAnswer is a peel's answer to a direct request.
type DirectAnswer struct {
	Peel target.PeelID `json:"peel_id"`
	Result
	V int `json:"v"`
}

// DecodeDirect decodes a direct request and returns it with the name of the person: the last token of the subject, on
// which only that person may publish. It refuses a request whose reply subject is not an [AnswerOf] this person and
// peel. The caller checks the version, because it can reply.
func DecodeDirect(msg *nats.Msg) (r DirectRequest, user string, err error) {
	if err := Decode(msg, &r); err != nil {
		return r, "", err
	}
	tokens := strings.Split(msg.Subject, ".")
	switch {
	case len(tokens) != 4 || msg.Subject != Direct(tokens[2], tokens[3]):
		err = fmt.Errorf("cannot read %s: not the subject of a direct request", msg.Subject)
	case !isAnswerOf(msg.Reply, tokens[3], tokens[2]):
		err = fmt.Errorf("cannot accept %s: its reply subject is %q, want %s", msg.Subject, msg.Reply,
			AnswerOf(tokens[3], "ID", tokens[2]))
	case r.Function == "":
		err = fmt.Errorf("cannot read %s: it names no function", msg.Subject)
	case r.TimeLeft <= 0 || r.TimeLeft > MaxDirect:
		err = fmt.Errorf("cannot accept %s: its time_left is %v, want more than 0 and at most %v", msg.Subject,
			r.TimeLeft, MaxDirect)
	default:
		user = tokens[3]
	}
	return r, user, err
}

func isAnswerOf(reply, user, peel string) bool {
	tokens := strings.Split(reply, ".")
	return len(tokens) == 5 && tokens[3] != "" && reply == AnswerOf(user, tokens[3], peel)
}

// DecodeDirectAnswer decodes the answer of a peel on a subject of [AnswerOf], on which the server lets no other peel
// publish. An answer that names another peel is refused with [ErrForged].
func DecodeDirectAnswer(msg *nats.Msg, peel target.PeelID) (DirectAnswer, error) {
	var a DirectAnswer
	err := Decode(msg, &a)
	if err == nil && a.Peel != peel {
		err = fmt.Errorf("%w: %q answered in the place of %q", ErrForged, a.Peel, peel)
	}
	if err == nil && a.V > Version {
		err = errors.New("the peel speaks a newer version of the protocol")
	}
	return a, err
}
