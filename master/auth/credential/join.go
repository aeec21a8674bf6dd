package credential

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// A JoinToken admits hosts without the approval of a person.
type JoinToken struct {
	Name      string    `json:"name"`
	Peel      string    `json:"peel"` // a glob for the IDs of the hosts
	Uses      int       `json:"uses"` // remaining
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
	Expires   time.Time `json:"expires"`
	Used      int       `json:"used"`
}

// A JoinRequest requests a join token. The client has made its text and sends the hash.
type JoinRequest struct {
	Name string        `json:"name"`
	Hash Hash          `json:"hash"`
	Peel string        `json:"peel"`
	Uses int           `json:"uses"`
	TTL  time.Duration `json:"ttl"`
}

// maxJoinUses and maxJoinTTL bound a join token.
const (
	maxJoinUses = 100_000
	maxJoinTTL  = 366 * 24 * time.Hour
)

// Check returns an error if the request is not valid.
func (q *JoinRequest) Check() error {
	if err := CheckTokenName(q.Name); err != nil {
		return err
	}
	if !grants.IsGlob(q.Peel) {
		return fmt.Errorf("%.100q is not a glob for peels, such as web-*", q.Peel)
	}
	switch {
	case q.Hash == (Hash{}):
		return errors.New("it has no hash")
	case q.Uses < 1 || q.Uses > maxJoinUses:
		return fmt.Errorf("it is for %d hosts: 1 to %d are possible", q.Uses, maxJoinUses)
	case q.TTL <= 0 || q.TTL > maxJoinTTL:
		return fmt.Errorf("it would end after %v: %v is the most", q.TTL, maxJoinTTL)
	}
	return nil
}

// A Site is a site, or a master, with revoked credentials.
type Site struct {
	Name      string    `json:"name"`
	Keys      []Key     `json:"keys"` // of credentials that have not expired
	Revoked   time.Time `json:"revoked"`
	RevokedBy string    `json:"revoked_by"`
	// Renewed has the keys of masters that got a further JWT. None of them is revoked.
	Renewed []Key `json:"renewed,omitempty"`
}
