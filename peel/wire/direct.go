package wire

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxDirect is how long the answer to a direct request may take: so long the bus keeps its way open.
const MaxDirect = 10 * time.Minute

// Direct is where a person asks one peel without a master. Its own grant covers it; peel and user may be "*".
func Direct(peel, user string) string { return "zester.direct." + peel + "." + user }

// A DirectRequest asks one peel to run a function now. There is no job: nothing is recorded but the peel's log, nothing
// is sent again, and the answer goes to the asker alone.
type DirectRequest struct {
	Function string         `json:"function"`
	ID       string         `json:"id,omitempty"` // as in [Request]
	Args     map[string]any `json:"args,omitempty"`
	TimeLeft time.Duration  `json:"time_left"` // after which nobody waits, so that the work does not start; at most [MaxDirect]
	V        int            `json:"v"`
}

// A DirectAnswer is what the peel answers.
type DirectAnswer struct {
	Peel target.PeelID `json:"peel_id"`
	Result
	V int `json:"v"`
}

// DecodeDirect reads what a person asks a peel, and who that is: the last token of the subject, which the server lets
// nobody else use. The version is the peel's to judge: it can answer.
func DecodeDirect(msg *nats.Msg) (r DirectRequest, user string, err error) {
	if err := Decode(msg, &r); err != nil {
		return r, "", err
	}
	tokens := strings.Split(msg.Subject, ".")
	switch {
	case len(tokens) != 4 || msg.Subject != Direct(tokens[2], tokens[3]):
		err = fmt.Errorf("cannot read %s: not a subject of direct requests", msg.Subject)
	case r.Function == "":
		err = fmt.Errorf("cannot read %s: it names no function", msg.Subject)
	case r.TimeLeft <= 0 || r.TimeLeft > MaxDirect:
		err = fmt.Errorf("cannot accept %s: its time is %v, more than 0 and at most %v are allowed", msg.Subject, r.TimeLeft, MaxDirect)
	default:
		user = tokens[3]
	}
	return r, user, err
}

// DecodeDirectAnswer reads the answer of a peel. That no other peel can have sent it is the work of the bus, which
// made the subject for this answer alone.
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
