package enroll

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/records"
)

// ErrNoSite: no credential was made for the site with the keys of this master.
var ErrNoSite = errors.New("no such site")

const sitePrefix = "site."

// RevokeSite ends all credentials of a site that were made so far: the bus cuts the connections of its server, and with it
// its peels, whose own credentials stay what they are. Revoking again ends those that were made since.
func (h *Hosts) RevokeSite(ctx context.Context, name, by string) (*credential.Site, error) {
	keys, err := h.siteKeys(name)
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		if err := h.sites.Create(ctx, name, credential.Site{Name: name}); err != nil && !errors.Is(err, records.ErrPresent) {
			return nil, err
		}
	}
	s, err := h.sites.Change(ctx, name, func(s *credential.Site) error {
		now := time.Now().UTC()
		s.Keys, s.Revoked, s.RevokedBy = credential.Current(credential.Merge(s.Keys, keys), now), now, by
		return nil
	})
	if errors.Is(err, records.ErrAbsent) {
		return nil, fmt.Errorf("%w: %s", ErrNoSite, name)
	}
	if err != nil {
		return nil, err
	}
	if err := h.o.Push(ctx); err != nil {
		return nil, fmt.Errorf("the site %s is revoked; its connections may last for some time: %w", name, err)
	}
	return &s, nil
}

// siteKeys returns the keys of a site in the register of the key store.
func (h *Hosts) siteKeys(name string) ([]credential.Key, error) {
	if err := grants.CheckName(grants.RoleSite, name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoSite, err)
	}
	known, err := keystore.Registered(h.o.Keys.Dir(), grants.RoleSite, name)
	return known.Keys, err
}

// EndedSites returns the keys of sites that were revoked.
func (h *Hosts) EndedSites(ctx context.Context) (map[string]credential.End, error) {
	sites, err := h.sites.List(ctx)
	ends := map[string]credential.End{}
	for _, s := range sites {
		maps.Copy(ends, credential.Ends(s.Keys, s.Revoked))
	}
	return ends, err
}
