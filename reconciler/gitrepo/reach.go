// File reach.go lists what a process that fetches needs of its system, so that it can be confined to it.

package gitrepo

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/remote"
)

// A Reach is what fetching from a repository needs besides the store.
type Reach struct {
	Read  []string // files and directories that are read, if they exist
	Ports []uint16 // TCP ports that are connected to
}

// Reach returns what [Repo.Resolve], [Repo.Fetch] and the methods that read commits need. Agents of ssh, which are
// reached by a Unix socket, are not part of it.
func (o Options) Reach() (Reach, error) {
	a, err := remote.Parse(o.URL)
	if err != nil {
		return Reach{}, err
	}
	if a.Path != "" {
		dir, err := FindGitDir(a.Path)
		if err != nil {
			dir = a.Path // Resolve says what is wrong
		}
		return Reach{Read: []string{a.Path, dir}}, nil
	}
	ports, err := a.Ports(o.Access)
	if err != nil {
		return Reach{}, err
	}
	read := slices.Clone(networkFiles)
	x := o.Access
	for _, name := range []string{x.Password, x.Token, x.CA, x.SSHKey, x.KnownHosts} {
		if name != "" {
			read = append(read, name)
		}
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		read = append(read, filepath.SplitList(os.Getenv(name))...)
	}
	if home, err := os.UserHomeDir(); err == nil {
		read = append(read, filepath.Join(home, ".ssh", "known_hosts"))
	}
	return Reach{Read: read, Ports: ports}, nil
}

// networkFiles are read for names of hosts, certificates and keys of ssh servers. The files in a directory of
// certificates are often links into /usr. The configuration of ssh is missing because Reach has read it already.
var networkFiles = []string{
	"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/passwd",
	"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/certs", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
	"/etc/ssh/ssh_known_hosts",
}
