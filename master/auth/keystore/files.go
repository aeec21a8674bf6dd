package keystore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/private"
)

// The files of a key directory, one seed each.
const (
	operatorFile = "operator.nk"
	systemFile   = "system.nk"
)

func accountFile(r grants.Role) string { return "account-" + string(r) + ".nk" }
func signerFile(r grants.Role) string  { return "signer-" + string(r) + ".nk" }

// Dir returns the directory of the keys below a data directory.
func Dir(dataDir string) string { return filepath.Join(dataDir, "auth") }

// Open reads the keys in dir, or makes them if dir is empty or not there. They appear all at once or not at all,
// and when two processes make them the first wins for both. It refuses a directory or file that others than its
// owner may use, a path that others may change, and a set with a key missing: a new one would lock out everybody whose
// credential the old one signed. Root may read the keys of a master that runs as another user, and changes none of
// them: the files would be root's, and the master could not read them.
func Open(dir string) (*Keys, error) { return OpenWith(dir, nil) }

// OpenWith is [Open] with a program for keys that have only their public half in the folder; nil: none.
func OpenWith(dir string, by *Signer) (*Keys, error) {
	if err := private.CheckRead(dir); err != nil {
		return nil, err
	}
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot open the keys: %w", err)
	}
	if len(names) == 0 {
		if err := create(dir); err != nil {
			return nil, fmt.Errorf("cannot make keys in %s: %w", dir, err)
		}
	}
	k, err := load(dir, by)
	if err != nil {
		return nil, fmt.Errorf("cannot open the keys in %s: %w", dir, err)
	}
	return k, nil
}

// younger are roles that older key sets lack; Open adds their keys.
var younger = []grants.Role{
	grants.RoleDirect, grants.RoleLimited, grants.RoleObserver, grants.RoleMember, grants.RoleSite,
}

// complete makes the keys of a role that has none. Of several processes that do it at once one wins for all, key by
// key; the account's comes last, so that what a crash leaves is completed as well.
func complete(root *os.Root, dir string, r grants.Role) error {
	files := []string{signerFile(r)}
	if r.Account() == r {
		files = append(files, accountFile(r))
	}
	last := files[len(files)-1]
	if out, err := isOutside(root, last); out || err != nil {
		return err
	}
	if _, err := root.Lstat(last); !errors.Is(err, fs.ErrNotExist) {
		return nil // what is wrong with it is found when it is read
	}
	for _, file := range files {
		if err := addKey(dir, file); err != nil {
			return err
		}
	}
	return nil
}

// addKey makes a key unless it exists.
func addKey(dir, file string) error {
	if err := private.Check(dir); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, ".new-key-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := writeKey(filepath.Join(tmp, file), nkeys.CreateAccount); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(tmp, file), filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// create writes a full set beside dir and then gives it its name. A crash before that leaves a directory of
// unused keys, which nothing reads.
func create(dir string) error {
	if err := private.Check(dir); err != nil {
		return err
	}
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
	}
	for _, r := range grants.Roles() {
		makers[accountFile(r)] = nkeys.CreateAccount
		makers[signerFile(r)] = nkeys.CreateAccount
	}
	makers[signerFile(grants.RoleSite)] = nkeys.CreateAccount
	for file, newKey := range makers {
		if err := writeKey(filepath.Join(tmp, file), newKey); err != nil {
			return err
		}
	}
	if err := (&Keys{dir: tmp}).write(noted{}); err != nil {
		return err
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

func load(dir string, by *Signer) (*Keys, error) {
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
	operator, err := readKey(root, operatorFile, nkeys.PrefixByteOperator, by)
	if err != nil {
		return nil, err
	}
	defer operator.Wipe()
	k := &Keys{dir: dir, by: by, accounts: map[grants.Role]string{}, signers: map[grants.Role]nkeys.KeyPair{}}
	for _, r := range younger {
		if err := complete(root, dir, r); err != nil {
			return nil, err
		}
	}
	for _, r := range grants.Roles() {
		if k.accounts[r], err = publicKey(root, accountFile(r)); err != nil {
			return nil, err
		}
		if k.signers[r], err = readKey(root, signerFile(r), nkeys.PrefixByteAccount, by); err != nil {
			return nil, err
		}
	}
	if k.signers[grants.RoleSite], err = readKey(root, signerFile(grants.RoleSite),
		nkeys.PrefixByteAccount, by); err != nil {
		return nil, err
	}
	system, err := publicKey(root, systemFile)
	if err != nil {
		return nil, err
	}
	if k.revoked, err = readRevoked(root); err != nil {
		return nil, err
	}
	last, err := readRotation(root)
	if err != nil {
		return nil, err
	}
	k.rotation, k.dirty = last.Rotation, last.Untold || last.Grants != grants.Digest()
	if k.trust, err = k.sign(operator, system); err != nil {
		return nil, err
	}
	return k, nil
}

// maxSeed bounds a file with a seed, in bytes.
const maxSeed = 1 << 10

func readKey(root *os.Root, name string, kind nkeys.PrefixByte, by *Signer) (nkeys.KeyPair, error) {
	if out, err := isOutside(root, name); out {
		return readOutside(root, name, kind, by)
	} else if err != nil {
		return nil, err
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	seed, err := private.Read(f, maxSeed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	seed = bytes.TrimSpace(seed)
	defer clear(seed)
	if got, _, err := nkeys.DecodeSeed(seed); err != nil || got != kind {
		return nil, fmt.Errorf("%s does not hold the seed of an %v key", name, kind)
	}
	return nkeys.FromSeed(seed)
}

func publicKey(root *os.Root, name string) (string, error) {
	key, err := readKey(root, name, nkeys.PrefixByteAccount, nil)
	if err != nil {
		return "", err
	}
	defer key.Wipe()
	return key.PublicKey()
}
