package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// The files of a key directory, one seed each.
const (
	operatorFile = "operator.nk"
	systemFile   = "system.nk"
	accountFile  = "account.nk"
)

func roleFile(r Role) string { return "role-" + string(r) + ".nk" }

// Open reads the keys in dir, or makes them if dir is empty or not there. They appear all at once or not at all,
// and when two processes make them the first wins for both. It refuses a directory or file that others than its
// owner may use, and a set with a key missing: a new one would lock out whoever the old one signed.
func Open(dir string) (*Keys, error) {
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot open the keys: %w", err)
	}
	if len(names) == 0 {
		if err := create(dir); err != nil {
			return nil, fmt.Errorf("cannot make keys in %s: %w", dir, err)
		}
	}
	k, err := load(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the keys in %s: %w", dir, err)
	}
	return k, nil
}

// create writes a full set beside dir and then gives it its name. A crash before that leaves a directory of
// unused keys, which nothing reads.
func create(dir string) error {
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, ".new-keys-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	makers := map[string]func() (nkeys.KeyPair, error){
		operatorFile: nkeys.CreateOperator,
		systemFile:   nkeys.CreateAccount,
		accountFile:  nkeys.CreateAccount,
	}
	for _, r := range roles {
		makers[roleFile(r)] = nkeys.CreateAccount
	}
	for file, newKey := range makers {
		if err := writeKey(filepath.Join(tmp, file), newKey); err != nil {
			return err
		}
	}
	if err := syncDir(tmp); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func writeKey(path string, newKey func() (nkeys.KeyPair, error)) (err error) {
	key, err := newKey()
	if err != nil {
		return err
	}
	defer key.Wipe()
	seed, err := key.Seed()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(append(seed, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func load(dir string) (*Keys, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the directory is open to others (mode %04o), want 0700", info.Mode().Perm())
	}
	operator, err := readKey(root, operatorFile, nkeys.PrefixByteOperator)
	if err != nil {
		return nil, err
	}
	defer operator.Wipe()
	k := &Keys{roles: map[Role]nkeys.KeyPair{}}
	for _, r := range roles {
		if k.roles[r], err = readKey(root, roleFile(r), nkeys.PrefixByteAccount); err != nil {
			return nil, err
		}
	}
	system, err := publicKey(root, systemFile)
	if err != nil {
		return nil, err
	}
	if k.account, err = publicKey(root, accountFile); err != nil {
		return nil, err
	}
	return k, k.sign(operator, system)
}

// readKey judges the opened file, not the name, so that what was checked is what is read.
func readKey(root *os.Root, name string, kind nkeys.PrefixByte) (nkeys.KeyPair, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if perm := info.Mode().Perm(); !info.Mode().IsRegular() || perm&0o077 != 0 {
		return nil, fmt.Errorf("%s is open to others (mode %04o) or not a file, want 0600", name, perm)
	}
	seed, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return nil, err
	}
	seed = bytes.TrimSpace(seed)
	defer clear(seed)
	if got, _, err := nkeys.DecodeSeed(seed); err != nil || got != kind {
		return nil, fmt.Errorf("%s does not hold the seed of an %v key", name, kind)
	}
	return nkeys.FromSeed(bytes.Clone(seed))
}

func publicKey(root *os.Root, name string) (string, error) {
	key, err := readKey(root, name, nkeys.PrefixByteAccount)
	if err != nil {
		return "", err
	}
	defer key.Wipe()
	return key.PublicKey()
}

// sign makes the JWTs of the operator and the accounts anew: they hold the templates of this build.
func (k *Keys) sign(operator nkeys.KeyPair, system string) error {
	public, err := operator.PublicKey()
	if err != nil {
		return err
	}
	oc := jwt.NewOperatorClaims(public)
	oc.Name = "zester"
	oc.SystemAccount = system
	sc := jwt.NewAccountClaims(system)
	sc.Name = "SYS"
	ac := jwt.NewAccountClaims(k.account)
	ac.Name = "ZESTER"
	ac.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	ac.Limits.DisallowBearer = true
	for r, key := range k.roles {
		scope, err := scopeOf(r, key)
		if err != nil {
			return err
		}
		ac.SigningKeys.AddScopedSigner(scope)
	}
	k.trust = Trust{SystemAccount: system, Accounts: map[string]string{}}
	if k.trust.Operator, err = oc.Encode(operator); err != nil {
		return err
	}
	for _, c := range []*jwt.AccountClaims{sc, ac} {
		if k.trust.Accounts[c.Subject], err = c.Encode(operator); err != nil {
			return err
		}
	}
	return nil
}

func scopeOf(r Role, key nkeys.KeyPair) (*jwt.UserScope, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	g := Permissions(r)
	scope := jwt.NewUserScope()
	scope.Key = public
	scope.Role = string(r)
	scope.Template.Pub.Allow.Add(g.Publish...)
	scope.Template.Sub.Allow.Add(g.Subscribe...)
	return scope, nil
}
