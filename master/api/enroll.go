package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// EnrollQuery selects peels that were enrolled or asked to be; the zero value selects all.
type EnrollQuery struct {
	State credential.EnrollState `json:"state,omitempty"`
	ID    target.PeelID          `json:"id,omitempty"`
	// Cursor is the next of the page before.
	Cursor target.PeelID `json:"cursor,omitempty"`
}

// EnrolledAnswer is a page of the selected peels, by ID.
type EnrolledAnswer struct {
	Peels []credential.Enrolled `json:"peels"`
	Next  target.PeelID         `json:"next,omitempty"` // the cursor of the next page; empty on the last
}

// Enrolled returns all peels that were enrolled or asked to be and that a query selects, by ID.
func (c *Client) Enrolled(ctx context.Context, q EnrollQuery) ([]credential.Enrolled, error) {
	all := []credential.Enrolled{}
	for {
		page, err := EnrollList.Ask(ctx, c, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Peels...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}

// EnrollName names a peel. An approval needs the waiting key too.
type EnrollName struct {
	ID     target.PeelID `json:"id"`
	Public string        `json:"public,omitempty"`
}

// JoinTokensAnswer is all join tokens, by name.
type JoinTokensAnswer struct {
	Tokens []credential.JoinToken `json:"tokens"`
}

// JoinAdded is a join token and the pin by which hosts recognize the masters.
type JoinAdded struct {
	Token credential.JoinToken `json:"token"`
	Pin   string               `json:"pin,omitempty"`
}

// JoinCreate makes a join token and returns its text, with the pin of the masters at its end. q.Hash is ignored.
func (c *Client) JoinCreate(ctx context.Context,
	q credential.JoinRequest,
) (text string, t *credential.JoinToken, err error) {
	text, q.Hash = credential.NewSecret(q.Name)
	a, err := askMade(ctx, c, JoinCreate, q)
	if err != nil {
		return "", nil, err
	}
	if a.Pin != "" {
		text += "." + a.Pin
	}
	return text, &a.Token, nil
}
