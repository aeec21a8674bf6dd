package api

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

// A NamesRequest asks for a list by name: for the elements whose names come after a text.
type NamesRequest struct {
	After string `json:"after,omitempty"`
}

// UsersAnswer is people who have a credential, by name, as many as fit into a message.
type UsersAnswer struct {
	Users []credential.User `json:"users"`
	Next  string            `json:"next,omitempty"` // what the next page comes after; empty on the last
}

// Page returns the people of a page, and what the next one comes after.
func (a *UsersAnswer) Page() ([]credential.User, string) { return a.Users, a.Next }

// All returns a whole list that comes in pages. page returns the elements of one, and what the next comes after.
func All[T, A any](
	ctx context.Context, by Asker, list Endpoint[NamesRequest, A], page func(*A) ([]T, string),
) ([]T, error) {
	all, q := []T{}, NamesRequest{}
	for {
		a, err := list.Ask(ctx, by, q)
		if err != nil {
			return nil, err
		}
		some, next := page(a)
		all = append(all, some...)
		if next == "" {
			return all, nil
		}
		q.After = next
	}
}

// RolesAnswer is all roles that people have written, by name.
type RolesAnswer struct {
	Roles []credential.Role `json:"roles"`
}

// RoleName names a role.
type RoleName struct {
	Name string `json:"name"`
}

// SiteName names a site, or a master.
type SiteName struct {
	Name string `json:"name"`
}

// UserAdded is a person and the JWT that was signed for the key.
type UserAdded struct {
	User credential.User `json:"user"`
	JWT  string          `json:"jwt"`
}

// UserAdd makes a key for a person, has a master sign it, and returns the content of a .creds file. The secret half of
// the key is sent nowhere. q.Public is ignored.
func (c *Client) UserAdd(ctx context.Context, q credential.UserRequest) (creds []byte, u *credential.User, err error) {
	key, err := credential.MakeKey()
	if err != nil {
		return nil, nil, err
	}
	q.Public = key.Public()
	a, err := askMade(ctx, c, UserAdd, q)
	if err != nil {
		return nil, nil, err
	}
	creds, err = key.Creds(a.JWT)
	return creds, &a.User, err
}
