package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// waits has a host ask to be a peel, without a token, and returns its key.
func (f *fleet) waits(t *testing.T, id target.PeelID) string {
	t.Helper()
	creds, err := f.keys.Creds(grants.RoleMaster, "enroller", 0)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(f.url, nats.UserCredentialBytes(creds), nats.RootCAs(f.ca), nats.CustomInboxPrefix(grants.RoleMaster.Inbox("enroller")), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: f.keys, JetStream: js})
	if err != nil {
		t.Fatal(err)
	}
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Sign(enroll.Proof(id, key.Public()))
	if err != nil {
		t.Fatal(err)
	}
	q := enroll.Request{ID: id, Public: key.Public(), Proof: base64.RawURLEncoding.EncodeToString(proof), From: "192.0.2.7"}
	if _, _, err := authority.Hosts.Enroll(t.Context(), q); !errors.Is(err, enroll.ErrPending) {
		t.Fatal(err)
	}
	return key.Public()
}

func TestApproveAsksToCompareTheKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	first, second := f.waits(t, "new-01"), f.waits(t, "new-02")
	zester := func(args ...string) *exec.Cmd {
		cmd := exec.Command("zester", append([]string{"auth", "peel"}, args...)...)
		cmd.Env = append(os.Environ(), "ZESTER_DATA_DIR="+f.dir)
		return cmd
	}
	out, err := zester("approve", "new-01").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitUsage {
		t.Errorf("without a terminal and a key: %v\n%s", err, out)
	}
	if want := "cannot approve a key without --key: there is no terminal to ask a question"; !strings.Contains(string(out), want) {
		t.Errorf("it does not say %q:\n%s", want, out)
	}
	if want := "zester auth peel approve new-01 --key " + first; !strings.Contains(string(out), want) {
		t.Errorf("it does not say %q:\n%s", want, out)
	}
	if out, err := zester("approve", "new-01", "--key", second).CombinedOutput(); err == nil {
		t.Errorf("approved with a key that does not wait: %s", out)
	}
	answer := func(text string) (shown string, err error) {
		main, side := terminal(t, 200)
		cmd := zester("approve", "new-02")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
		if _, err := main.WriteString(text + "\n"); err != nil {
			t.Fatal(err)
		}
		err = cmd.Run()
		side.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(main) // ends with an error when nobody holds the other side any more
		return b.String(), err
	}
	if shown, err := answer(""); err == nil || !strings.Contains(shown, "new-02 waits with the key "+second+", from 192.0.2.7") {
		t.Errorf("who does not agree: %v\n%s", err, shown)
	}
	if shown, err := answer("yes"); err != nil || !strings.Contains(shown, "peel new-02 is accepted") {
		t.Errorf("who agrees: %v\n%s", err, shown)
	}
	if out, err := zester("approve", "new-01", "--key", first).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := zester("approve", "new-03").CombinedOutput(); err == nil || !strings.Contains(string(out), `no peel "new-03" waits for approval`) {
		t.Errorf("%v\n%s", err, out)
	}
}
