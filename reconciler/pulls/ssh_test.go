package pulls

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	kernel "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/seed-c01c3da5/zester/master/forge"
)

// TestAPullRequestOverSSHIsPlannedByAConfinedProcess fetches from OpenSSH's server with a key and its known host.
func TestAPullRequestOverSSHIsPlannedByAConfinedProcess(t *testing.T) {
	if missing := unconfined(kernel.LandlockGetABIVersion()); missing != "" {
		t.Skip(missing)
	}
	b := newBench(t, forge.GitHub, site)
	keys := t.TempDir()
	addr := serveSSH(t, keys)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	b.o.Repo.URL = "ssh://" + me.Username + "@" + addr + b.dir
	b.o.Repo.Access.SSHKey = filepath.Join(keys, "user")
	b.o.Repo.Access.KnownHosts = filepath.Join(keys, "known")
	s := b.lead()
	head := b.push(7, false, "settings/web.yaml", twoHours)
	b.poll(s)
	b.comment(7, "2 of 3 peels change", head[:8])
}

// serveSSH serves the files of this user by sshd, and returns the address. The folder gets the key of a user, and the key
// of the host as a file of known hosts.
func serveSSH(t *testing.T, keys string) string {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd"
	}
	if _, err := os.Stat(sshd); err != nil {
		t.Skip("needs sshd, which is not installed")
	}
	if os.Geteuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755) // as root it wants this to be there
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(keys, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(keys, "host.pub"))
	config := fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/user.pub\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nSetEnv HOME=%[1]s\n", keys)
	if err = errors.Join(err, os.WriteFile(filepath.Join(keys, "config"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(keys, "known"), []byte("["+host+"]:"+port+" "+strings.TrimSpace(string(public))+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			socket, err := conn.(*net.TCPConn).File()
			_ = conn.Close()
			if err != nil {
				t.Error(err)
				return
			}
			cmd := exec.Command(sshd, "-i", "-e", "-f", filepath.Join(keys, "config"))
			cmd.Stdin, cmd.Stdout = socket, socket
			serving.Go(func() {
				_ = cmd.Run() // what it makes of the connection is for the client to see
				_ = socket.Close()
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return l.Addr().String()
}
