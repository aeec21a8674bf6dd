package gitrepo

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// An sshServer is OpenSSH's own, one process a connection.
type sshServer struct {
	dir  string // host_key, user_key, authorized
	addr string
	user string
}

func newSSHServer(t *testing.T) *sshServer {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		if sshd, err = exec.LookPath("/usr/sbin/sshd"); err != nil {
			t.Skip("needs sshd, which is not installed")
		}
	}
	if os.Geteuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755) // as root it wants this to be there
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &sshServer{dir: t.TempDir(), user: me.Username}
	for _, key := range []string{"host_key", "user_key", "other_key"} {
		s.keygen(t, key, "")
	}
	pub, err := os.ReadFile(filepath.Join(s.dir, "user_key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(s.dir, "authorized"), string(pub))
	rewrite(t, filepath.Join(s.dir, "config"), fmt.Sprintf("HostKey %[1]s/host_key\nAuthorizedKeysFile %[1]s/authorized\n"+
		"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n"+
		"SetEnv HOME=%[1]s\n", s.dir)) // whose shell has nothing to read before it starts git
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() { s.serve(t, l, sshd, &serving) })
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return s
}

func (s *sshServer) serve(t *testing.T, l net.Listener, sshd string, serving *sync.WaitGroup) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		socket, err := conn.(*net.TCPConn).File()
		_ = conn.Close()
		if err != nil {
			t.Error(err)
			return
		}
		cmd := exec.Command(sshd, "-i", "-e", "-f", filepath.Join(s.dir, "config"))
		cmd.Stdin, cmd.Stdout = socket, socket
		serving.Go(func() {
			_ = cmd.Run() // what it makes of the connection is for the client to see
			_ = socket.Close()
		})
	}
}

func (s *sshServer) keygen(t *testing.T, name, passphrase string) {
	t.Helper()
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", filepath.Join(s.dir, name)).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
}

// knows is a file of known hosts in which the server has a key.
func (s *sshServer) knows(t *testing.T, key string) string {
	t.Helper()
	pub, err := os.ReadFile(filepath.Join(s.dir, key+".pub"))
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	return fileWith(t, fmt.Sprintf("[%s]:%s %s", host, port, pub))
}

func (s *sshServer) fingerprint(t *testing.T, key string) string {
	t.Helper()
	out, err := exec.Command("ssh-keygen", "-l", "-f", filepath.Join(s.dir, key+".pub")).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))[1]
}

func (s *sshServer) url(w *Work) string { return "ssh://" + s.user + "@" + s.addr + w.Dir() }

func (s *sshServer) key(name string) string { return filepath.Join(s.dir, name) }

func TestFollowsOverSSHWithAKeyAndKnownHosts(t *testing.T) {
	s := newSSHServer(t)
	w := newWork(t, files("a", "1", "d/b", "2"))
	r := openRepo(t, Options{URL: s.url(w), Access: Access{SSHKey: s.key("user_key"), KnownHosts: s.knows(t, "host_key")}})
	got, _ := follow(t, r)
	wantFiles(t, got.Tree, "a", "1", "d/b", "2")
	h := commit(t, w, "two", "a", "3")
	if got, _ = follow(t, r); got.Commit.Hash != h {
		t.Errorf("at %s, want %s", got.Commit.Hash, h)
	}
	wantFiles(t, got.Tree, "a", "3", "d/b", "2")
}

func TestAnSSHHostThatIsUnknownOrAnotherIsRefused(t *testing.T) {
	s := newSSHServer(t)
	w := newWork(t, files("a", "1"))
	known := fileWith(t, "# nobody\n")
	r := openRepo(t, Options{URL: s.url(w), Access: Access{SSHKey: s.key("user_key"), KnownHosts: known}})
	_, err := r.Resolve(t.Context())
	e := wantReason(t, err, HostKey)
	if !e.Reason.Stalled() || !strings.Contains(e.Msg, s.fingerprint(t, "host_key")+", and is not in known_hosts") {
		t.Errorf("unknown: %v", err)
	}
	other, err := os.ReadFile(s.knows(t, "other_key"))
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, known, string(other))
	_, err = r.Resolve(t.Context())
	e = wantReason(t, err, HostKey)
	if !strings.Contains(e.Msg, s.fingerprint(t, "host_key")) || !strings.Contains(e.Msg, s.fingerprint(t, "other_key")) {
		t.Errorf("another: %v", err)
	}
	right, err := os.ReadFile(s.knows(t, "host_key"))
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, known, string(right))
	follow(t, r)
	if err := os.Remove(known); err != nil {
		t.Fatal(err)
	}
	_, err = r.Resolve(t.Context())
	wantReason(t, err, HostKey)
}

func TestAnSSHKeyIsReplacedWithoutARestart(t *testing.T) {
	s := newSSHServer(t)
	w := newWork(t, files("a", "1"))
	s.keygen(t, "locked_key", "a passphrase")
	key := filepath.Join(t.TempDir(), "key")
	put := func(name string) {
		t.Helper()
		data, err := os.ReadFile(s.key(name))
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, key, string(data))
	}
	r := openRepo(t, Options{URL: s.url(w), Access: Access{SSHKey: key, KnownHosts: s.knows(t, "host_key")}})
	_, err := r.Resolve(t.Context())
	wantReason(t, err, CredentialsUnreadable)
	put("locked_key")
	_, err = r.Resolve(t.Context())
	if e := wantReason(t, err, CredentialsUnreadable); !strings.Contains(e.Msg, "passphrase") {
		t.Error(err)
	}
	put("other_key")
	_, err = r.Resolve(t.Context())
	wantReason(t, err, AuthenticationFailed)
	put("user_key")
	follow(t, r)
}

// socks is a SOCKS5 proxy (RFC 1928) without credentials, whatever the name to one address.
func socks(t *testing.T, to string, passed *atomic.Int32) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				hello := make([]byte, 2)
				if _, err := io.ReadFull(c, hello); err != nil {
					return
				}
				_, _ = io.CopyN(io.Discard, c, int64(hello[1]))
				_, _ = c.Write([]byte{5, 0})
				request := make([]byte, 5)
				if _, err := io.ReadFull(c, request); err != nil || request[3] != 3 {
					return
				}
				rest := make([]byte, int(request[4])+2)
				if _, err := io.ReadFull(c, rest); err != nil || binary.BigEndian.Uint16(rest[len(rest)-2:]) != 22 {
					return
				}
				passed.Add(1)
				up, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
				tie(c, c, up)
			}()
		}
	}()
	return l.Addr().String()
}

func TestAMissingRepositoryOverSSHIsNamed(t *testing.T) {
	s := newSSHServer(t)
	w := newWork(t, files("a", "1"))
	url := s.url(w) + "/no'such!repo"
	_, err := openRepo(t, Options{URL: url, Access: Access{SSHKey: s.key("user_key"), KnownHosts: s.knows(t, "host_key")}}).Resolve(t.Context())
	if e := wantReason(t, err, NotFound); !strings.Contains(e.Msg, "no'such!repo") {
		t.Errorf("message is %q", e.Msg)
	}
}

func TestSSHGoesOverTheProxyOfTheConfiguration(t *testing.T) {
	s := newSSHServer(t)
	w := newWork(t, files("a", "1"))
	var passed atomic.Int32
	pub, err := os.ReadFile(s.key("host_key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	follow(t, openRepo(t, Options{URL: s.user + "@forge.invalid:" + w.Dir(), Access: Access{
		SSHKey: s.key("user_key"), KnownHosts: fileWith(t, "forge.invalid "+string(pub)), Proxy: "socks5://" + socks(t, s.addr, &passed),
	}}))
	if passed.Load() == 0 {
		t.Error("not over the proxy")
	}
}
