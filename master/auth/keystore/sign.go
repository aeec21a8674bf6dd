package keystore

import (
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// endOfTime is what no credential is issued after.
var endOfTime = time.Unix(1<<40, 0)

// sign makes the JWTs of the operator and the accounts anew: they hold the table of this build.
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

// claims describe the account of a role: what its users may do in it, and what passes between it and the masters'.
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
		ac.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	}
	ac.Exports = grants.Exports(r)
	ac.Imports = grants.Imports(r, k.accounts)
	for public := range k.revoked[r] {
		ac.RevokeAt(public, endOfTime) // a revoked key is never signed for again, but by a master whose clock or word was late
	}
	return ac, nil
}
