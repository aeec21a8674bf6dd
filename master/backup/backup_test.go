package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// A side is a data directory with its embedded bus.
type side struct {
	*openBus
	js jetstream.JetStream // of a master
}

// openSide opens a data directory, which gets keys if it has none.
func openSide(t *testing.T, dir string) *side {
	t.Helper()
	if _, err := keystore.Open(keystore.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	s := &side{}
	var err error
	if s.openBus, err = (Bus{DataDir: dir, Log: slog.New(slog.DiscardHandler)}).open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.openBus.close)
	nc, err := s.master()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if s.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return s
}

// archiver connects as Bus.Connect does, without a socket.
func (s *side) archiver(t *testing.T) *nats.Conn {
	t.Helper()
	creds, err := s.keys.ArchiverCreds(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.dial(creds, grants.KeeperInbox, append(slices.Clone(s.opts), quiet)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

var quiet = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})

// fill makes the streams and puts something into some of them.
func (s *side) fill(t *testing.T) {
	t.Helper()
	if _, err := natsd.Provision(t.Context(), s.js, bucket.Kept{Replicas: 1, Audit: natsd.AuditRetention}); err != nil {
		t.Fatal(err)
	}
	put := func(subject, value string) {
		if _, err := s.js.Publish(t.Context(), subject, []byte(value)); err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	for i := range 40 {
		put(wire.KVSubject(wire.BucketRevisions, "big."+string(rune('a'+i))), strings.Repeat("0123456789abcdef", 16<<10))
	}
	put(wire.KVSubject(wire.BucketUsers, "ada"), "an operator")
	put(wire.KVSubject(wire.BucketUsers, "ada"), "an auditor")
	put(wire.KVSubject(wire.BucketMasters, "m1"), "alive")
	put("zester.audit.peel.revoke.ada", "an entry")
	for stream, name := range map[string]string{wire.StreamJobEvents: "results", wire.KV(wire.BucketUsers): ""} {
		_, err := s.js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// states returns the newest sequence and the number of messages of each stream, and its consumers.
func (s *side) states(t *testing.T) map[string][3]uint64 {
	t.Helper()
	all := map[string][3]uint64{}
	list := s.js.ListStreams(t.Context())
	for info := range list.Info() {
		all[info.Config.Name] = [3]uint64{info.State.LastSeq, info.State.Msgs, uint64(info.State.Consumers)}
	}
	if list.Err() != nil {
		t.Fatal(list.Err())
	}
	return all
}

func (s *side) write(t *testing.T) ([]byte, Manifest) {
	t.Helper()
	var file bytes.Buffer
	m, err := Write(t.Context(), s.archiver(t), Options{DataDir: s.DataDir, Version: "0.2.0", Lacks: []string{"/etc/zester/age.key"}}, &file)
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), m
}

func opening(file []byte) func() (io.Reader, error) {
	return func() (io.Reader, error) { return bytes.NewReader(file), nil }
}

func TestARestoredBusHasEachStreamOfTheBackup(t *testing.T) {
	first := openSide(t, t.TempDir())
	first.fill(t)
	file, m := first.write(t)
	if read, err := Check(bytes.NewReader(file)); err != nil || read.Time != m.Time || read.Version != "0.2.0" || len(read.Lacks) != 1 {
		t.Fatalf("%+v, %v", read, err)
	}
	if left, _ := filepath.Glob(first.DataDir + "/.backup-*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}

	dir := filepath.Join(t.TempDir(), "elsewhere")
	if _, err := Restore(t.Context(), Bus{DataDir: dir, Log: slog.New(slog.DiscardHandler)}, RestoreOptions{}, opening(file)); err != nil {
		t.Fatal(err)
	}
	second := openSide(t, dir)
	if first.keys.PeelAccount() != second.keys.PeelAccount() {
		t.Error("the keys differ")
	}
	want := first.states(t)
	for _, name := range short {
		delete(want, name)
	}
	if n := want[wire.StreamJobEvents][2]; n != 1 {
		t.Errorf("%d consumers of results", n)
	}
	byConnections := want[wire.KV(wire.BucketUsers)]
	byConnections[2] = 0 // those of connections are not in the backup
	want[wire.KV(wire.BucketUsers)] = byConnections
	if got := second.states(t); !maps.Equal(got, want) {
		t.Errorf("streams are\n%v, want\n%v", got, want)
	}
	users, err := second.js.KeyValue(t.Context(), wire.BucketUsers)
	if err != nil {
		t.Fatal(err)
	}
	if ada, err := users.Get(t.Context(), "ada"); err != nil || string(ada.Value()) != "an auditor" {
		t.Errorf("%v, %v", ada, err)
	}
	// A master can start there.
	if _, err := natsd.Provision(t.Context(), second.js, bucket.Kept{}); err != nil {
		t.Error(err)
	}
}

func TestStreamsOfAClusterGetOneCopyOnAnEmbeddedServer(t *testing.T) {
	c := natstest.ListenCluster(t)
	nc := c.Conn(t, grants.RoleMaster, "m1")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c.Settle(js)
	if _, err := js.Publish(t.Context(), wire.KVSubject(wire.BucketUsers, "ada"), []byte("an operator")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := keystore.Open(keystore.Dir(dir)); err != nil { // other keys than those of the cluster will do here
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := Write(t.Context(), nc, Options{DataDir: dir}, &file); err != nil {
		t.Fatal(err)
	}

	there := t.TempDir()
	if _, err := Restore(t.Context(), Bus{DataDir: there, Log: slog.New(slog.DiscardHandler)}, RestoreOptions{}, opening(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	second := openSide(t, there)
	if kept, err := natsd.Provision(t.Context(), second.js, bucket.Kept{}); err != nil || kept.Replicas != 1 {
		t.Errorf("%+v, %v", kept, err)
	}
	log, err := second.js.Stream(t.Context(), wire.StreamAudit)
	if err != nil || log.CachedInfo().Config.Replicas != 1 {
		t.Errorf("%v", err)
	}
}

func TestADamagedBackupIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	first := openSide(t, t.TempDir())
	first.fill(t)
	file, m := first.write(t)
	seed, err := os.ReadFile(filepath.Join(first.DataDir, m.Files[0].Name))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":   {nil, "it is not a backup"},
		"text":    {[]byte("#!/bin/sh\n"), "it is not a backup"},
		"cut off": {file[:len(file)/1024*512+100], "unexpected EOF"}, // within a block of the archive
		"no end":  {file[:len(file)-2000], "unexpected EOF"},
		"longer":  {append(file[:len(file)-1024:len(file)-1024], file...), "more than its manifest names"},
		"newer":   {bytes.Replace(file, []byte(`"format": 1`), []byte(`"format": 2`), 1), `written by zester "0.2.0", which is newer`},
		"outside": {bytes.Replace(file, []byte(`"name": "auth/account-`), []byte(`"name": "/etc/account-`), 1), `names the file "/etc/account-`},
		"changed": {bytes.Replace(file, seed, bytes.ToLower(seed), 1), "was changed since it was written"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		_, err := Restore(t.Context(), Bus{DataDir: dir, Log: slog.New(slog.DiscardHandler)}, RestoreOptions{}, opening(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the data directory was made: %v", name, err)
		}
	}
}

func TestARestoreReplacesNothing(t *testing.T) {
	first := openSide(t, t.TempDir())
	first.fill(t)
	file, _ := first.write(t)
	restore := func(dir string) error {
		_, err := Restore(t.Context(), Bus{DataDir: dir, Log: slog.New(slog.DiscardHandler)}, RestoreOptions{}, opening(file))
		return err
	}
	other := t.TempDir()
	if _, err := keystore.Open(keystore.Dir(other)); err != nil {
		t.Fatal(err)
	}
	if err := restore(other); err == nil || !strings.Contains(err.Error(), "it has keys; move ") {
		t.Error(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(full+"/notes", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore(full); err == nil || !strings.Contains(err.Error(), "it has notes; name an empty directory with --data-dir") {
		t.Error(err)
	}
	again := t.TempDir()
	if err := restore(again); err != nil {
		t.Fatal(err)
	}
	if err := restore(again); err == nil || !strings.Contains(err.Error(), "name it with --revoked") {
		t.Error(err)
	}
	if err := checkEmpty(t.Context(), first.archiver(t)); err == nil || !strings.Contains(err.Error(), "KV_users") {
		t.Error(err)
	}
}

// A restore that was killed leaves the mark, and perhaps half of a bus.
func TestAKilledRestoreCanBeRepeatedAndNothingStartsBefore(t *testing.T) {
	first := openSide(t, t.TempDir())
	first.fill(t)
	file, m := first.write(t)
	bus := Bus{DataDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	if err := CheckWhole(bus.DataDir); err != nil {
		t.Error(err)
	}

	ctx, kill := context.WithCancel(t.Context())
	opened := 0
	_, err := Restore(ctx, bus, RestoreOptions{}, func() (io.Reader, error) {
		if opened++; opened == 2 {
			kill()
		}
		return opening(file)()
	})
	if err == nil {
		t.Fatal("the restore was not stopped")
	}
	key := filepath.Join(bus.DataDir, m.Files[0].Name)
	if _, err := os.Stat(key); err != nil {
		t.Fatal("the restore was stopped before its first file: ", err)
	}
	if err := CheckWhole(bus.DataDir); err == nil || !strings.Contains(err.Error(), "run zester-master restore again") {
		t.Error(err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bus.store(), "half"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	if _, err := Restore(t.Context(), bus, RestoreOptions{}, opening(file)); err != nil {
		t.Fatal(err)
	}
	if err := CheckWhole(bus.DataDir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(key); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(bus.store(), "half")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file of the first restore is still there: ", err)
	}
}

// A master is lost, its keys are not: they know what was revoked after the backup.
func TestARestoreKeepsWhatTheKeysHaveRevokedSince(t *testing.T) {
	revoke := func(s *side, name string) string {
		t.Helper()
		key, err := credential.MakeKey()
		if err != nil {
			t.Fatal(err)
		}
		public := key.Public()
		ends := map[string]credential.End{public: {At: time.Now()}}
		if _, _, err := s.keys.Revoke(grants.RoleOperator, ends); err != nil {
			t.Fatal(err)
		}
		entry := keystore.Entry{Role: grants.RoleOperator, ID: name, Keys: []credential.Key{{Public: public}}, Revoked: time.Now()}
		if err := keystore.Close(s.keys.Dir(), entry); err != nil {
			t.Fatal(err)
		}
		return public
	}
	first := openSide(t, t.TempDir())
	first.fill(t)
	before := t.TempDir()
	if err := os.CopyFS(before+"/auth", os.DirFS(first.keys.Dir())); err != nil {
		t.Fatal(err)
	}
	bob := revoke(first, "bob")
	file, _ := first.write(t)
	eve := revoke(first, "eve")
	after := t.TempDir()
	if err := os.CopyFS(after+"/auth", os.DirFS(first.keys.Dir())); err != nil {
		t.Fatal(err)
	}

	for from, want := range map[string][]string{"": {bob}, before: {bob}, after: {bob, eve}} {
		dir := filepath.Join(t.TempDir(), "data")
		if from != "" {
			from += "/auth"
		}
		bus := Bus{DataDir: dir, Log: slog.New(slog.DiscardHandler)}
		if _, err := Restore(t.Context(), bus, RestoreOptions{Revoked: from}, opening(file)); err != nil {
			t.Fatal(err)
		}
		keys, err := keystore.Open(keystore.Dir(dir))
		if err != nil {
			t.Fatal(err)
		}
		revoked := keys.Revoked(grants.RoleOperator)
		if len(revoked) != len(want) {
			t.Errorf("%v are revoked, want %v", revoked, want)
		}
		for _, public := range want {
			if _, is := revoked[public]; !is {
				t.Errorf("%s is not revoked", public)
			}
		}
		entries, err := keystore.Entries(keys.Dir(), grants.RoleOperator)
		if err != nil || len(entries) != len(want) || entries[0].Revoked.IsZero() {
			t.Errorf("%+v, %v", entries, err)
		}
	}

	other := openSide(t, t.TempDir())
	bus := Bus{DataDir: filepath.Join(t.TempDir(), "data"), Log: slog.New(slog.DiscardHandler)}
	if _, err := Restore(t.Context(), bus, RestoreOptions{Revoked: other.keys.Dir()}, opening(file)); err == nil ||
		!strings.Contains(err.Error(), "are not those of the backup") {
		t.Error(err)
	}
	if _, err := os.Stat(bus.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Error("the data directory was made: ", err)
	}
}

// The credentials of a backup and of a restore may do nothing else.
func TestCredentialsOfABackupMayDoNothingElse(t *testing.T) {
	s := openSide(t, t.TempDir())
	s.fill(t)
	restorer, err := s.restorer()
	if err != nil {
		t.Fatal(err)
	}
	defer restorer.Close()
	restorer.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	for name, nc := range map[string]*nats.Conn{"backup": s.archiver(t), "restore": restorer} {
		for _, subject := range []string{
			"$JS.API.STREAM.DELETE.KV_users", "$JS.API.STREAM.PURGE.audit", "$JS.API.STREAM.MSG.GET.KV_users",
			wire.KVSubject(wire.BucketUsers, "eve"), wire.Cmd("web-01"), wire.Dispatch("ada"),
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if msg, err := nc.RequestWithContext(ctx, subject, []byte("{}")); err == nil {
				t.Errorf("%s: %s is answered: %s", name, subject, msg.Data)
			}
			cancel()
		}
	}
	stream, err := s.js.Stream(t.Context(), wire.KV(wire.BucketUsers))
	if err != nil {
		t.Fatal(err)
	}
	info := stream.CachedInfo()
	if _, err := ask(t.Context(), restorer, "$JS.API.STREAM.RESTORE."+info.Config.Name, map[string]any{"config": info.Config, "state": info.State}, answerTime); err == nil {
		t.Error("a stream that exists is replaced")
	}
	if info.State.Msgs != 1 {
		t.Errorf("%d users", info.State.Msgs)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte("manifest.json"))
	var b bytes.Buffer
	sum := newHashed()
	_, _ = sum.Write([]byte("key"))
	if err := pack(Manifest{Format: 1, Files: []Part{sum.part("auth/operator.nk")}}, [][]byte{[]byte("key")}, nil, &b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		m, files, err := readAll(opening(data))
		if err != nil {
			return
		}
		for name := range files {
			if !filepath.IsLocal(name) || !strings.HasPrefix(name, "auth/") && !strings.HasPrefix(name, "tls/") {
				t.Errorf("%q is written", name)
			}
		}
		if len(files) != len(m.Files) {
			t.Errorf("%d files, the manifest names %d", len(files), len(m.Files))
		}
	})
}
