package keystore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func open(t *testing.T, dir string) *keystore.Keys {
	t.Helper()
	k, err := keystore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func issuer(t *testing.T, k *keystore.Keys) string {
	t.Helper()
	c, err := jwt.DecodeOperatorClaims(k.Trust().Operator)
	if err != nil {
		t.Fatal(err)
	}
	return c.Issuer
}

func TestKeysAreMadeOnceForTheirOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "keys")
	first := issuer(t, open(t, dir))
	if again := issuer(t, open(t, dir)); again != first {
		t.Errorf("opened again: operator %s, was %s", again, first)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the keys: %v, %v", left, err)
	}
}

func TestKeysReplaceAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestProcessesThatStartTogetherShareOneSet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	var wg sync.WaitGroup
	got := make([]*keystore.Keys, 8)
	for i := range got {
		wg.Go(func() {
			k, err := keystore.Open(dir)
			if err != nil {
				t.Error(err)
			}
			got[i] = k
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, k := range got {
		if issuer(t, k) != issuer(t, got[0]) {
			t.Error("two sets were in use")
		}
	}
}

func TestKeysAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"open directory": {func(dir string) error { return os.Chmod(dir, 0o750) }, "mode 0750"},
		"open file":      {func(dir string) error { return os.Chmod(filepath.Join(dir, "signer-peel.nk"), 0o640) }, "signer-peel.nk: its mode is -rw-r-----: it contains secrets"},
		"missing key":    {func(dir string) error { return os.Remove(filepath.Join(dir, "account-master.nk")) }, "account-master.nk: no such file"},
		"key of another": {func(dir string) error {
			return os.Rename(filepath.Join(dir, "system.nk"), filepath.Join(dir, "operator.nk"))
		}, "operator.nk does not hold"},
		"truncated":       {func(dir string) error { return os.Truncate(filepath.Join(dir, "operator.nk"), 20) }, "operator.nk does not hold"},
		"link to outside": {func(dir string) error { return outsideLink(dir) }, "path escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "keys")
			open(t, dir)
			if err := tc.spoil(dir); err != nil {
				t.Fatal(err)
			}
			_, err := keystore.Open(dir)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want it to name %s and %q", err, dir, tc.want)
			}
		})
	}
}

func TestADirectoryFromBeforeARoleGetsItsKeysOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	old := issuer(t, open(t, dir))
	for _, file := range []string{"account-direct.nk", "signer-direct.nk", "account-limited.nk", "account-member.nk", "signer-member.nk", "signer-site.nk"} { // of the last a crash left one
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	got := make([]*keystore.Keys, 8)
	for i := range got {
		wg.Go(func() { got[i] = open(t, dir) })
	}
	wg.Wait()
	creds, err := got[0].Creds(grants.RoleDirect, "dan", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range got {
		if issuer(t, k) != old {
			t.Error("the bus has another operator")
		}
		if !trusts(t, k, creds) {
			t.Error("a credential that another process signed is not trusted")
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 20 { // rotation.json among them
		t.Errorf("%v, %v", files, err)
	}
}

// trusts reports whether a bus with the keys would take a credential, by its signatures.
func trusts(t *testing.T, k *keystore.Keys, creds []byte) bool {
	t.Helper()
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	user, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	account, err := jwt.DecodeAccountClaims(k.Trust().Accounts[user.IssuerAccount])
	return err == nil && account.DidSign(user)
}

func outsideLink(dir string) error {
	moved := dir + ".nk"
	return errors.Join(os.Rename(filepath.Join(dir, "operator.nk"), moved), os.Symlink(moved, filepath.Join(dir, "operator.nk")))
}

func TestNamesThatWouldWidenOrBlurAGrantAreRefused(t *testing.T) {
	k := open(t, filepath.Join(t.TempDir(), "keys"))
	long := strings.Repeat("n", target.MaxIDLength)
	for _, role := range []grants.Role{grants.RolePeel, grants.RoleOperator, grants.RoleDirect, grants.RoleLimited, grants.RoleAuditor, grants.RoleMaster} {
		for _, name := range []string{"", "*", ">", "peel-a.>", "*.x", "web.example.com", "has space", "tab\t", "nl\n", "ünï", "{{name()}}", "a,b", "$JS", long + "n"} {
			if c, err := k.Creds(role, name, 0); err == nil {
				t.Errorf("%s %q got %s", role, name, c)
			}
		}
		if _, err := k.Creds(role, "A-z_09", 0); err != nil {
			t.Error(err)
		}
	}
	if _, err := k.Creds(grants.RolePeel, target.PeelID(strings.Repeat("a.", 64)).Wire(), 0); err != nil {
		t.Errorf("the longest peel ID: %v", err)
	}
	if _, err := k.Creds(grants.RoleOperator, long, 0); err == nil {
		t.Error("an operator's name of 128 bytes was signed")
	}
}

func TestOnlyPublicUserKeysOfKnownRolesAreSigned(t *testing.T) {
	k := open(t, filepath.Join(t.TempDir(), "keys"))
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	accountKey, _ := account.PublicKey()
	userKey, _ := user.PublicKey()
	seed, _ := user.Seed()
	for what, issue := range map[string]func() (string, error){
		"an account's key": func() (string, error) { return k.Issue(grants.RolePeel, "p", accountKey, 0) },
		"a seed":           func() (string, error) { return k.Issue(grants.RolePeel, "p", string(seed), 0) },
		"an unknown role":  func() (string, error) { return k.Issue("root", "p", userKey, 0) },
		"a past end":       func() (string, error) { return k.Issue(grants.RolePeel, "p", userKey, -time.Second) },
	} {
		if token, err := issue(); err == nil {
			t.Errorf("%s was signed: %s", what, token)
		} else if strings.Contains(err.Error(), string(seed)) {
			t.Errorf("%s: the error tells the seed", what)
		}
	}
	token, err := k.Issue(grants.RolePeel, "p", userKey, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	if !c.HasEmptyPermissions() || c.Name != "p" || c.Subject != userKey {
		t.Errorf("signed %+v", c)
	}
}

func TestTrustHoldsNoSeed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	k := open(t, dir)
	trust := k.Trust()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		seed, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(trust), string(bytes.TrimSpace(seed))) {
			t.Errorf("%s is in the trust", f.Name())
		}
	}
	if want := 1 + len(grants.Roles()); len(trust.Accounts) != want {
		t.Errorf("%d accounts, want %d", len(trust.Accounts), want)
	}
}

func TestACredentialEndsOnTheLiveConnection(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		creds, err := b.Keys.Creds(grants.RolePeel, "web-01", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		nc, err := nats.Connect(b.URL(), nats.InProcessServer(b), nats.UserCredentialBytes(creds),
			nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		begin := time.Now()
		<-closed
		if held := time.Since(begin); held < 59*time.Minute || held > 61*time.Minute {
			t.Errorf("held for %v", held)
		}
	})
}

func TestRestartWithTheSameKeysKnowsOldCredentials(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		opts := b.Options(grants.RolePeel, "web-01")
		b.Restart(t)
		nc, err := nats.Connect(b.URL(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	})
}

// recorder keeps what a client sends.
type recorder struct {
	net.Conn
	sent *bytes.Buffer
}

func (r recorder) Write(p []byte) (int, error) {
	r.sent.Write(p)
	return r.Conn.Write(p)
}

// A recordingDialer connects within the process, where the server wants no TLS, which would hide what is sent.
type recordingDialer struct {
	bus  *natstest.Bus
	sent bytes.Buffer
}

func (d *recordingDialer) InProcessConn() (net.Conn, error) {
	c, err := d.bus.InProcessConn()
	return recorder{c, &d.sent}, err
}

// The server cuts connections whose CONNECT is longer than its limit for control lines, 4,096 bytes.
func TestCONNECTOfTheLongestNameIsSmall(t *testing.T) {
	b := natstest.Listen(t)
	name := strings.Repeat("n", target.MaxIDLength)
	d := recordingDialer{bus: b}
	readable := func(o *nats.Options) error { o.Secure = false; return nil }
	nc, err := nats.Connect("", append(b.Options(grants.RolePeel, name), nats.InProcessServer(&d), readable, nats.Timeout(time.Minute))...)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	line, _, ok := strings.Cut(d.sent.String(), "\r\n")
	if !ok || !strings.HasPrefix(line, "CONNECT ") {
		t.Fatalf("sent %q", d.sent.String())
	}
	if len(line) > 2048 {
		t.Errorf("CONNECT has %d bytes, want at most half of the limit", len(line))
	}
}

func TestKeysBelowADirectoryThatOthersMayReplaceAreRefused(t *testing.T) {
	shared := t.TempDir()
	dir := keystore.Dir(filepath.Join(shared, "master"))
	if _, err := keystore.Open(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, filepath.Join(shared, "other")} {
		if _, err := keystore.Open(dir); err == nil || !strings.Contains(err.Error(), "chmod go-w "+shared) {
			t.Errorf("keys in %s: %v", dir, err)
		}
		if _, err := pki.Open(dir); err == nil || !strings.Contains(err.Error(), "chmod go-w "+shared) {
			t.Errorf("an authority in %s: %v", dir, err)
		}
	}
}

func TestASetOfKeysFromBeforeARoleIsCompleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	first := issuer(t, open(t, dir))
	for _, file := range []string{"account-limited.nk", "signer-limited.nk"} {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	if got := issuer(t, open(t, dir)); got != first {
		t.Error("the operator is another")
	}
	if err := os.Remove(filepath.Join(dir, "signer-limited.nk")); err != nil {
		t.Fatal(err)
	}
	if _, err := keystore.Open(dir); err == nil {
		t.Error("half of a role's keys were lost and are made anew")
	}
}

func TestADamagedListOfTheRevokedIsNotAnEmptyOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	open(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "revoked.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keystore.Open(dir); err == nil || !strings.Contains(err.Error(), "revoked.json") {
		t.Errorf("opened: %v", err)
	}
}
