package auth

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Held returns the newest credential of each party of the bus that was not revoked, by role and name. One that has
// expired is only in it if the peel can renew it. Peels that enroll are known from their records, all others from the
// records of people and the register beside the keys: what was made with another copy of the keys is missing until it
// is renewed.
func (a *Authority) Held(ctx context.Context) (all []credential.Held, err error) {
	now := time.Now()
	users, err := a.Users.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if u.Revoked.IsZero() {
			all = appendNewest(all, credential.Held{Role: u.Role, Name: u.Name}, credential.Current(u.Keys, now))
		}
	}
	peels, err := a.Hosts.List(ctx)
	if err != nil {
		return nil, err
	}
	known := map[target.PeelID]bool{}
	for _, e := range peels {
		known[e.ID] = e.State == credential.Accepted || e.State == credential.Revoked
		if e.State == credential.Accepted {
			all = append(all, credential.Held{
				Role:    grants.RolePeel,
				Name:    string(e.ID),
				Expires: e.Expires,
				Renews:  e.Enrolls(),
			})
		}
	}
	ended, err := a.ends(ctx)
	if err != nil {
		return nil, err
	}
	renewed, err := a.Hosts.Renewed(ctx)
	if err != nil {
		return nil, err
	}
	for _, role := range []grants.Role{grants.RolePeel, grants.RoleSite, grants.RoleMaster} {
		entries, err := keystore.Entries(a.o.Keys.Dir(), role)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.Revoked.IsZero() || role == grants.RolePeel && known[target.PeelID(e.ID)] {
				continue
			}
			issued := e.Keys
			if role == grants.RoleMaster {
				issued = credential.Merge(renewed[e.ID], issued)
				delete(renewed, e.ID)
			}
			keys := slices.DeleteFunc(credential.Current(issued, now), func(k credential.Key) bool {
				_, revoked := ended[role.Account()][k.Public]
				return revoked
			})
			all = appendNewest(all, credential.Held{Role: role, Name: e.ID}, keys)
		}
	}
	for name, keys := range renewed { // of masters whose first credential another copy of the keys made
		all = appendNewest(all, credential.Held{Role: grants.RoleMaster, Name: name}, credential.Current(keys, now))
	}
	sorting.Func(all, func(a, b credential.Held) int {
		return cmp.Or(strings.Compare(string(a.Role), string(b.Role)), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// appendNewest adds a party with the end of its newest key, nothing if it has none.
func appendNewest(all []credential.Held, h credential.Held, keys []credential.Key) []credential.Held {
	if len(keys) == 0 {
		return all
	}
	newest := slices.MaxFunc(keys, func(a, b credential.Key) int { return a.Issued.Compare(b.Issued) })
	h.Expires = newest.Expires
	return append(all, h)
}
