package keystore

import (
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// endOfTime bounds the expiry of credentials.
var endOfTime = time.Unix(1<<40, 0)

// sign makes new JWTs of the operator and the accounts, with the table of permissions of this build.
func (k *Keys) sign(operator nkeys.KeyPair, system string) (Trust, error) {
	public, err := operator.PublicKey()
	if err != nil {
		return Trust{}, err
	}
	oc := jwt.NewOperatorClaims(public)
	oc.Name = "zester"
	oc.SystemAccount = system
	sc := jwt.NewAccountClaims(system)
	sc.Name = "SYS"
	t := Trust{SystemAccount: system, Accounts: map[string]string{}}
	if t.Operator, err = oc.Encode(operator); err != nil {
		return Trust{}, err
	}
	if t.Accounts[system], err = sc.Encode(operator); err != nil {
		return Trust{}, err
	}
	for _, r := range grants.Roles() {
		ac, err := k.claims(r)
		if err != nil {
			return Trust{}, err
		}
		if t.Accounts[ac.Subject], err = ac.Encode(operator); err != nil {
			return Trust{}, err
		}
	}
	return t, nil
}

// claims returns the account of a role: the permissions of its users, and its imports from and exports to the masters'
// account.
func (k *Keys) claims(r grants.Role) (*jwt.AccountClaims, error) {
	ac := jwt.NewAccountClaims(k.accounts[r])
	ac.Name = grants.AccountName(r)
	ac.Limits.DisallowBearer = true
	for signs, key := range k.signers {
		if signs.Account() != r {
			continue
		}
		signer, err := key.PublicKey()
		if err != nil {
			return nil, err
		}
		ac.SigningKeys.AddScopedSigner(grants.UserScope(signs, signer))
		if former := k.rotation.Former[signs]; former != "" && former != signer {
			ac.SigningKeys.AddScopedSigner(grants.UserScope(signs, former))
		}
	}
	if r == grants.RoleMaster {
		ac.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: jwt.NoLimit,
			DiskStorage:   jwt.NoLimit,
			Streams:       jwt.NoLimit,
			Consumer:      jwt.NoLimit,
		}
	}
	ac.Exports = grants.Exports(r)
	ac.Imports = grants.Imports(r, k.accounts)
	for public := range k.revoked[r] {
		// a revoked key is never signed for again, but by a master whose clock or word was late
		ac.RevokeAt(public, endOfTime)
	}
	return ac, nil
}
