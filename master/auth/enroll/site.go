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
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// Errors of names for which no credential was made with the keys of this master.
var (
	ErrNoSite   = errors.New("no such site")
	ErrNoMaster = errors.New("no such master")
)

const (
	sitePrefix   = "site."
	masterPrefix = "master."
)

// RevokeSite ends all credentials of a site that were made so far: the bus cuts the connections of its server, and with
// it its peels, whose own credentials stay what they are. Revoking again ends those that were made since.
func (h *Hosts) RevokeSite(ctx context.Context, name, by string) (*credential.Site, error) {
	return h.revoke(ctx, h.sites, grants.RoleSite, name, by)
}

// RevokeMaster ends all credentials of a master that were made so far with zester auth issue, as RevokeSite does,
// within a second of the reply. A master that has the keys in its data directory makes its own credential, and is not
// known by this.
func (h *Hosts) RevokeMaster(ctx context.Context, name, by string) (*credential.Site, error) {
	return h.revoke(ctx, h.masters, grants.RoleMaster, name, by)
}

func (h *Hosts) revoke(ctx context.Context, all bucket.Records[credential.Site], role grants.Role,
	name, by string,
) (*credential.Site, error) {
	none := ErrNoSite
	if role == grants.RoleMaster {
		none = ErrNoMaster
	}
	if err := grants.CheckName(role, name); err != nil {
		return nil, fmt.Errorf("%w: %w", none, err)
	}
	known, err := keystore.Registered(h.o.Keys.Dir(), role, name)
	if err != nil {
		return nil, err
	}
	if len(known.Keys) > 0 {
		if err := all.Create(ctx, name, credential.Site{Name: name}); err != nil && !errors.Is(err, bucket.ErrPresent) {
			return nil, err
		}
	}
	s, err := all.Change(ctx, name, func(s *credential.Site) error {
		now := time.Now().UTC()
		// those that were renewed first: they end later
		keys := credential.Merge(credential.Merge(s.Renewed, s.Keys), known.Keys)
		s.Keys = credential.Current(keys, now)
		s.Revoked = now
		s.RevokedBy = by
		s.Renewed = nil
		return nil
	})
	if errors.Is(err, bucket.ErrAbsent) {
		return nil, fmt.Errorf("%w: %s", none, name)
	}
	if err != nil {
		return nil, err
	}
	if role == grants.RoleMaster {
		// a new account of the masters drops the replies that are on their way, also the one to this request
		h.o.PushSoon()
		return &s, nil
	}
	if err := h.o.Push(ctx); err != nil {
		return nil, fmt.Errorf("the %s %s is revoked; its connections may last for some time: %w", role, name, err)
	}
	return &s, nil
}

// Uphold revokes the peels, sites and masters in the buckets whose keys the key store names as revoked, and returns
// them as "peel web-01", also with an error. They are active in the buckets after an older copy of the bus was
// restored.
func (h *Hosts) Uphold(ctx context.Context, by string) (names []string, failed error) {
	peels, err := h.List(ctx)
	if err != nil {
		return nil, err
	}

	revoked := h.o.Keys.Revoked(grants.RolePeel)
	for _, e := range peels {
		end, ended := revoked[e.Public]
		if !ended || e.State != credential.Accepted {
			continue
		}
		if err := h.revokeAgain(ctx, &e, end, by); err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot revoke the peel %s again: %w", e.ID, err))
			continue
		}
		names = append(names, "peel "+string(e.ID))
	}

	for role, all := range map[grants.Role]bucket.Records[credential.Site]{
		grants.RoleSite:   h.sites,
		grants.RoleMaster: h.masters,
	} {
		upheld, err := h.upholdRole(ctx, all, role, by)
		names = append(names, upheld...)
		failed = errors.Join(failed, err)
	}
	return names, failed
}

// revokeAgain revokes the key in the record of a peel. Keys with which the peel joined again are not in the older copy
// of the bus, and stay valid.
func (h *Hosts) revokeAgain(ctx context.Context, e *credential.Enrolled, end credential.End, by string) error {
	_, err := h.changePeel(ctx, e.ID, func(r *credential.Enrolled) error {
		if r.ID != e.ID || r.Public != e.Public || r.State != credential.Accepted {
			return fmt.Errorf("%w: %s is %s", ErrConflict, r.ID, r.State)
		}
		r.Enter(credential.Revoked, by)
		if end.Expires.IsZero() || end.Expires.After(r.Expires) {
			r.Expires = end.Expires // later than in the copy if the credential was renewed
		}
		revoke(r, nil)
		return nil
	})
	return err
}

// upholdRole implements Uphold for sites or masters. A name may have other keys that are not revoked.
func (h *Hosts) upholdRole(ctx context.Context, all bucket.Records[credential.Site], role grants.Role,
	by string,
) (names []string, failed error) {
	entries, err := keystore.Entries(h.o.Keys.Dir(), role)
	if err != nil {
		return nil, err
	}
	stored, err := ended(ctx, all)
	if err != nil {
		return nil, err
	}
	revoked := h.o.Keys.Revoked(role)
	for _, known := range entries {
		var lost []credential.Key
		var last time.Time // of the revocations
		for _, k := range known.Keys {
			end, ended := revoked[k.Public]
			if _, has := stored[k.Public]; !ended || has {
				continue
			}

			k.Expires = end.Expires // later than the register says if the credential was renewed
			lost = append(lost, k)
			if end.At.After(last) {
				last = end.At
			}
		}
		if lost = credential.Current(lost, time.Now()); len(lost) == 0 {
			continue
		}

		err := all.Create(ctx, known.ID, credential.Site{Name: known.ID})
		if err == nil || errors.Is(err, bucket.ErrPresent) {
			_, err = all.Change(ctx, known.ID, func(s *credential.Site) error {
				s.Keys = credential.Merge(s.Keys, lost)
				if last.After(s.Revoked) {
					s.Revoked = last
					s.RevokedBy = by
				}
				return nil
			})
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot revoke the %s %s again: %w", role, known.ID, err))
			continue
		}

		names = append(names, string(role)+" "+known.ID)
	}
	return names, failed
}

// EndedSites returns the keys of sites that were revoked.
func (h *Hosts) EndedSites(ctx context.Context) (map[string]credential.End, error) {
	return ended(ctx, h.sites)
}

// EndedMasters returns the keys of masters that were revoked.
func (h *Hosts) EndedMasters(ctx context.Context) (map[string]credential.End, error) {
	return ended(ctx, h.masters)
}

func ended(ctx context.Context, revoked bucket.Records[credential.Site]) (map[string]credential.End, error) {
	all, err := revoked.List(ctx)
	ends := map[string]credential.End{}
	for _, s := range all {
		maps.Copy(ends, credential.Ends(s.Keys, s.Revoked))
	}
	return ends, err
}
