package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// maxSiteToken is how long a JWT of a site may be, in bytes: servers take 64 KiB from a leaf node before they know it.
const maxSiteToken = 60 << 10

// IssueSite signs a JWT as [Keys.Issue] does, for a leaf node that brings the peels to the bus.
func (k *Keys) IssueSite(name, public string, peels []target.PeelID, ttl time.Duration) (string, error) {
	if len(peels) == 0 || len(peels) > grants.MaxSitePeels {
		return "", fmt.Errorf("cannot sign a credential for the site %q: it has %d peels, 1 to %d are possible", name, len(peels), grants.MaxSitePeels)
	}
	var names []string
	for _, p := range peels {
		if _, err := target.ParsePeelID(string(p)); err != nil {
			return "", fmt.Errorf("cannot sign a credential for the site %q: %w", name, err)
		}
		names = append(names, p.Wire())
	}
	token, err := k.issue(grants.RoleSite, name, public, ttl, names...)
	if err == nil && len(token) > maxSiteToken {
		err = fmt.Errorf("cannot sign a credential for the site %q: it would have %d bytes, %d are possible: name fewer peels", name, len(token), maxSiteToken)
	}
	return token, err
}

// ErrNoSite is of a site for which no credential was made with the keys that are here.
var ErrNoSite = errors.New("no such site")

const sitePrefix = "site."

// A Site is one whose credentials were revoked.
type Site struct {
	Name      string    `json:"name"`
	Keys      []UserKey `json:"keys"` // whose credentials have not ended by themselves
	Revoked   time.Time `json:"revoked"`
	RevokedBy string    `json:"revoked_by"`
}

// RevokeSite ends all credentials of a site that were made so far: the bus cuts the connections of its server, and with it
// its peels, whose own credentials stay what they are. Revoking again ends those that were made since.
func (a *Authority) RevokeSite(ctx context.Context, name, by string) (*Site, error) {
	keys, err := a.siteKeys(name)
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		if err := a.sites.create(ctx, name, Site{Name: name}); err != nil && !errors.Is(err, errPresent) {
			return nil, err
		}
	}
	s, err := a.sites.change(ctx, name, func(s *Site) error {
		now := time.Now().UTC()
		s.Keys, s.Revoked, s.RevokedBy = current(united(s.Keys, keys), now), now, by
		return nil
	})
	if errors.Is(err, errAbsent) {
		return nil, fmt.Errorf("%w: %s", ErrNoSite, name)
	}
	if err != nil {
		return nil, err
	}
	if err := a.sync(ctx); err != nil {
		return nil, fmt.Errorf("the site %s is revoked; its connections may last for some time: %w", name, err)
	}
	return &s, nil
}

// siteKeys are those for which credentials of a site were made in the directory of the keys.
func (a *Authority) siteKeys(name string) ([]UserKey, error) {
	if err := grants.CheckName(grants.RoleSite, name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoSite, err)
	}
	known, err := readIssue(filepath.Join(a.o.Keys.dir, registerDir, issueFile(grants.RoleSite, name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return known.Keys, err
}

// revokedSites are the keys of sites that were revoked.
func (a *Authority) revokedSites(ctx context.Context) (map[string]End, error) {
	sites, err := a.sites.list(ctx)
	ends := map[string]End{}
	for _, s := range sites {
		maps.Copy(ends, endsOf(s.Keys, s.Revoked))
	}
	return ends, err
}
