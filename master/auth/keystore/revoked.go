package keystore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/private"
)

// revokedFile is in the directory of the keys, so that an embedded server refuses revoked keys from its start.
const revokedFile = "revoked.json"

// maxRevoked bounds revokedFile in bytes.
const maxRevoked = 16 << 20

// Revoke ends all credentials of the given keys in a role, durably, and returns the JWT of the role's account, by which
// servers learn it. Keys that were revoked before stay revoked, until the later of the ends that were given. changed is
// false if nothing was new.
func (k *Keys) Revoke(role grants.Role, ends map[string]credential.End) (account string, changed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.accounts[role]; !ok {
		return "", false, fmt.Errorf("cannot revoke a credential: unknown role %q", role)
	}
	all := maps.Clone(k.revoked)
	if all == nil {
		all = map[grants.Role]map[string]credential.End{}
	}
	of := map[string]credential.End{}
	now := time.Now()
	for public, e := range all[role] {
		if e.Expires.IsZero() || e.Expires.After(now) {
			of[public] = e
		}
	}
	for public, e := range ends {
		if !nkeys.IsValidPublicUserKey(public) || !e.Expires.IsZero() && !e.Expires.After(now) {
			continue
		}
		known, ok := of[public]
		if !ok {
			of[public], changed = e, true
			continue
		}
		if longer, more := known.Lasts(e); more {
			of[public], changed = longer, true
		}
	}
	if !changed {
		return k.trust.Accounts[k.accounts[role]], false, nil
	}
	all[role] = of
	if err := k.writeRevoked(all); err != nil {
		return "", false, fmt.Errorf("cannot revoke a credential: %w", err)
	}
	k.revoked = all
	if err := k.renew(role); err != nil {
		return "", false, fmt.Errorf("cannot revoke a credential: %w", err)
	}
	return k.trust.Accounts[k.accounts[role]], true, nil
}

// Revoked returns the keys of a role that [Keys.Revoke] ended. Sites are in the account of the peels: for both roles it
// returns the keys of both.
func (k *Keys) Revoked(role grants.Role) map[string]credential.End {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.revoked[role.Account()])
}

func (k *Keys) writeRevoked(all map[grants.Role]map[string]credential.End) error {
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if len(data) > maxRevoked {
		return fmt.Errorf("%s would have %d bytes, %d are the most: rotate the signing keys instead", revokedFile,
			len(data), maxRevoked)
	}
	if err := private.Check(k.dir); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(k.dir, revokedFile), data, 0o600)
}

// renew signs the JWT of one account again.
func (k *Keys) renew(role grants.Role) error {
	root, err := os.OpenRoot(k.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	operator, err := readKey(root, operatorFile, nkeys.PrefixByteOperator, k.by)
	if err != nil {
		return err
	}
	defer operator.Wipe()
	claims, err := k.claims(role)
	if err != nil {
		return err
	}
	token, err := claims.Encode(operator)
	if err != nil {
		return err
	}
	k.trust.Accounts = maps.Clone(k.trust.Accounts)
	k.trust.Accounts[claims.Subject] = token
	return nil
}

func readRevoked(root *os.Root) (all map[grants.Role]map[string]credential.End, err error) {
	f, err := root.Open(revokedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRevoked+1))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &all); err != nil || len(data) > maxRevoked {
		return nil, fmt.Errorf("cannot read %s: it is damaged; without it revoked credentials would be accepted: %w",
			revokedFile, err)
	}
	return all, nil
}
