// Package keystore holds the secrets that sign credentials of the bus, and what is kept beside them. Call [Open] with
// the folder of the keys, give [Keys.Trust] to the server, and sign with [Keys.Issue] or [Keys.Creds].
//
// Trust is a chain of signatures. An operator key signs the accounts: one for the server itself and one for each
// [grants.Role]. An account lists a signing key with the permissions of all users that the key signs. A user's JWT
// holds a name and no permissions, so a change of the table reaches everybody when the servers get the accounts of a
// new version.
//
// The folder has four kinds of state: the keys; revoked.json, the keys that [Keys.Revoke] ended; rotation.json, the
// last change of the signing keys; and the register ([Register]), a file for each name for which a credential was made.
//
// Guarantees: keys appear all at once or not at all; files that others may read are refused; a damaged list of revoked
// keys is an error, never an empty list; a rotation that is cut short locks nobody out and is completed by repeating
// it. "a.b" and "a_b" have one name on the bus, so the register refuses the second.
//
// Known gaps: whoever can read the folder can sign anything. The keys are not encrypted; a [Signer] may keep them
// elsewhere. Keys that it has are not rotated here.
package keystore

import (
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Trust is what a server must know to check credentials. It holds no secret.
type Trust struct {
	Operator      string            // the operator's JWT
	SystemAccount string            // public key of the account in which the server speaks of itself
	Accounts      map[string]string // JWTs of all accounts by public key
}

// Keys hold the secrets that sign credentials. Methods may be called from several goroutines.
type Keys struct {
	dir      string
	by       *Signer                // has the keys that the folder lacks; nil: none
	accounts map[grants.Role]string // public keys
	signers  map[grants.Role]nkeys.KeyPair

	mu       sync.Mutex                                // guards signers, too
	revoked  map[grants.Role]map[string]credential.End // by public key
	rotation credential.Rotation
	dirty    bool // servers may lack the accounts of rotation
	trust    Trust
}

// Dir returns the directory of the keys.
func (k *Keys) Dir() string { return k.dir }

// Trust returns what the server needs. A revocation changes it.
func (k *Keys) Trust() Trust {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.trust
	t.Accounts = maps.Clone(t.Accounts)
	return t
}

// Issue signs a JWT for a user key that was made elsewhere. It needs the public half alone. For a peel the name is the
// wire form of its ID, for others 1 to 64 characters of [A-Za-z0-9_-]. A ttl of 0 gives a JWT that does not end.
func (k *Keys) Issue(role grants.Role, name, public string, ttl time.Duration) (string, error) {
	return k.issue(role, name, public, ttl)
}

func (k *Keys) issue(role grants.Role, name, public string, ttl time.Duration, peels ...string) (string, error) {
	k.mu.Lock()
	signer, ok := k.signers[role]
	k.mu.Unlock()
	if !ok {
		return "", fmt.Errorf("cannot sign a credential for %q: unknown role %q", name, role)
	}
	if err := grants.CheckName(role, name); err != nil {
		return "", err
	}
	if !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("cannot sign a credential for %q: the public key is not the key of a user", name)
	}
	if ttl < 0 {
		return "", fmt.Errorf("cannot sign a credential for %q: it would have ended %v ago", name, -ttl)
	}
	c := jwt.NewUserClaims(public)
	c.Name = name
	c.IssuerAccount = k.accounts[role.Account()]
	c.SetScoped(true)
	c.Tags = grants.Tags(role, peels...)
	if ttl > 0 {
		c.Expires = time.Now().Add(ttl).Unix()
	}
	token, err := c.Encode(signer)
	if err != nil {
		return "", fmt.Errorf("cannot sign a credential for %q: %w", name, err)
	}
	return token, nil
}

// maxSiteToken is how long a JWT of a site may be, in bytes: servers take 64 KiB from a leaf node before they know it.
const maxSiteToken = 60 << 10

// IssueSite signs a JWT as [Keys.Issue] does, for a leaf node that brings the peels to the bus.
func (k *Keys) IssueSite(name, public string, peels []target.PeelID, ttl time.Duration) (string, error) {
	if len(peels) == 0 || len(peels) > grants.MaxSitePeels {
		return "", fmt.Errorf("cannot sign a credential for the site %q: it has %d peels, 1 to %d are possible", name,
			len(peels), grants.MaxSitePeels)
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
		err = fmt.Errorf(
			"cannot sign a credential for the site %q: it would have %d bytes, %d are possible: name fewer peels",
			name, len(token), maxSiteToken,
		)
	}
	return token, err
}

// Creds makes a new user key and returns it with its JWT in the form of a .creds file, which is a secret.
// Name and ttl are as in [Keys.Issue].
func (k *Keys) Creds(role grants.Role, name string, ttl time.Duration) ([]byte, error) {
	key, err := credential.MakeKey()
	if err != nil {
		return nil, err
	}
	token, err := k.Issue(role, name, key.Public(), ttl)
	if err != nil {
		return nil, err
	}
	return key.Creds(token)
}

// PeelAccount returns the public key of the account of peels.
func (k *Keys) PeelAccount() string { return k.accounts[grants.RolePeel] }

// SystemCreds returns a credential for the system account, in which the server publishes its events and accepts JWTs of
// accounts.
func (k *Keys) SystemCreds(ttl time.Duration) ([]byte, error) {
	return k.accountCreds(systemFile, ttl, grants.Grants{})
}

// KeeperCreds returns a credential with [grants.AuditKeeper].
func (k *Keys) KeeperCreds(ttl time.Duration) ([]byte, error) {
	return k.accountCreds(accountFile(grants.RoleMaster), ttl, grants.AuditKeeper())
}

// ArchiverCreds returns a credential with [grants.Archiver].
func (k *Keys) ArchiverCreds(ttl time.Duration) ([]byte, error) {
	return k.accountCreds(accountFile(grants.RoleMaster), ttl, grants.Archiver())
}

// RestorerCreds returns a credential with [grants.Restorer].
func (k *Keys) RestorerCreds(ttl time.Duration) ([]byte, error) {
	return k.accountCreds(accountFile(grants.RoleMaster), ttl, grants.Restorer())
}

// accountCreds returns a credential that the key of an account in file signs. Without grants it may use the whole
// account.
func (k *Keys) accountCreds(file string, ttl time.Duration, may grants.Grants) ([]byte, error) {
	creds, err := k.signByAccount(file, ttl, may)
	if err != nil {
		return nil, fmt.Errorf("cannot make a credential with %s: %w", file, err)
	}
	return creds, nil
}

func (k *Keys) signByAccount(file string, ttl time.Duration, may grants.Grants) ([]byte, error) {
	root, err := os.OpenRoot(k.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	signer, err := readKey(root, file, nkeys.PrefixByteAccount, k.by)
	if err != nil {
		return nil, err
	}
	defer signer.Wipe()
	key, err := credential.MakeKey()
	if err != nil {
		return nil, err
	}
	c := jwt.NewUserClaims(key.Public())
	c.Name = "zester"
	c.Expires = time.Now().Add(ttl).Unix()
	c.Pub.Allow.Add(may.Publish...)
	c.Sub.Allow.Add(may.Subscribe...)
	token, err := c.Encode(signer)
	if err != nil {
		return nil, err
	}
	return key.Creds(token)
}
