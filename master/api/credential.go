package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

// A CredentialsRequest requests a page of credentials: those after the first Skip.
type CredentialsRequest struct {
	Skip int `json:"skip,omitempty"`
}

// CredentialsPage is a page of the credentials of the bus that have not ended, by role and name.
type CredentialsPage struct {
	Credentials []credential.Held `json:"credentials"`
	More        bool              `json:"more,omitempty"`
}

// Credentials returns the newest credential of each party, as the master that answers knows it, by role and name.
func (c *Client) Credentials(ctx context.Context) ([]credential.Held, error) {
	all := []credential.Held{}
	for {
		page, err := CredentialList.Ask(ctx, c, CredentialsRequest{Skip: len(all)})
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Credentials...); !page.More || len(page.Credentials) == 0 {
			return all, nil
		}
	}
}
