package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshSource asks an ssh server, with a key of a file or of the user's agent. A
// host is trusted by the known hosts alone.
type sshSource struct {
	address address
	access  Access
}

func (s *sshSource) close() {}

func (s *sshSource) resolve(ctx context.Context, branch plumbing.ReferenceName) (Hash, error) {
	var tip Hash
	err := s.session(ctx, func(sess transport.UploadPackSession) error {
		refs, err := advertised(ctx, s.address, sess)
		if err != nil {
			return err
		}
		tip, err = pick(s.address, refs.References, branch)
		return err
	})
	return tip, err
}

// fetchTries is how often a server is asked that hangs up too early for go-git.
const fetchTries = 3

func (s *sshSource) fetch(ctx context.Context, f fetch) error {
	for range fetchTries {
		err := s.session(ctx, func(sess transport.UploadPackSession) error {
			return uploadPack(ctx, s.address, sess, f)
		})
		if !errors.Is(err, errHungUp) {
			return err
		}
	}
	return classify(ctx, s.address, errHungUp)
}

// session runs do in one ssh connection, which is closed when ctx ends.
func (s *sshSource) session(ctx context.Context, do func(transport.UploadPackSession) error) error {
	ep, err := transport.NewEndpoint(s.address.raw)
	if err != nil {
		return errorf(NotFound, s.address.display, "not a URL: %s", s.address.clean(err.Error()))
	}
	auth, err := s.auth(ep)
	if err != nil {
		return classify(ctx, s.address, err)
	}
	via, err := s.access.proxy("ssh")
	if err != nil {
		return err
	}
	dial, release := bindDial(ctx, via)
	defer release()
	ep.Proxy.URL = dial
	sess, err := gitssh.NewClient(nil).NewUploadPackSession(ep, auth)
	if err != nil {
		return classify(ctx, s.address, err)
	}
	// Closing first ends the connection; only then the session has nothing
	// left to wait for.
	defer func() {
		release()
		_ = sess.Close()
	}()
	return do(sess)
}

// auth reads the key and the known hosts.
func (s *sshSource) auth(ep *transport.Endpoint) (gitssh.AuthMethod, error) {
	user := ep.User
	if user == "" {
		user = gitssh.DefaultUsername
	}
	if s.access.SSHKey == "" {
		agent, err := gitssh.NewSSHAgentAuth(user)
		if err != nil {
			return nil, err
		}
		agent.HostKeyCallbackHelper, err = s.hosts(ep)
		return agent, err
	}
	data, err := readPrivate(s.access.SSHKey)
	if err != nil {
		return nil, errorf(CredentialsUnreadable, s.address.display, "cannot read the ssh key in %s: %v", s.access.SSHKey, err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		err = errors.New("it is protected by a passphrase; use one that is not, or the agent")
	}
	if err != nil {
		return nil, errorf(CredentialsUnreadable, s.address.display, "cannot use the ssh key in %s: %v", s.access.SSHKey, err)
	}
	helper, err := s.hosts(ep)
	return &gitssh.PublicKeys{User: user, Signer: key, HostKeyCallbackHelper: helper}, err
}

// hosts says which host keys are trusted, and asks the server for one of these.
func (s *sshSource) hosts(ep *transport.Endpoint) (gitssh.HostKeyCallbackHelper, error) {
	var files []string
	if s.access.KnownHosts != "" {
		if _, err := readLimited(s.access.KnownHosts, maxKeys); err != nil {
			return gitssh.HostKeyCallbackHelper{}, errorf(HostKey, s.address.display, "cannot read the known hosts in %s: %v", s.access.KnownHosts, err)
		}
		files = []string{s.access.KnownHosts}
	}
	known, err := gitssh.NewKnownHostsDb(files...)
	if err != nil {
		return gitssh.HostKeyCallbackHelper{}, errorf(HostKey, s.address.display, "cannot read the known hosts: %v", err)
	}
	port := ep.Port
	if port <= 0 {
		port = gitssh.DefaultPort
	}
	trusted := known.HostKeyCallback()
	return gitssh.HostKeyCallbackHelper{
		HostKeyAlgorithms: known.HostKeyAlgorithms(net.JoinHostPort(ep.Host, strconv.Itoa(port))),
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			err := trusted(host, remote, key)
			if strange, ok := errors.AsType[*knownhosts.KeyError](err); ok {
				return &hostKeyError{offered: key, known: strange.Want}
			}
			return err
		},
	}, nil
}

// hostKeyError is of a host that shows a key that is not known.
type hostKeyError struct {
	offered ssh.PublicKey
	known   []knownhosts.KnownKey
}

func (e *hostKeyError) Error() string {
	shown := "the host shows the key " + named(e.offered)
	if len(e.known) == 0 {
		return shown + ", and is not in known_hosts"
	}
	var known []string
	for _, k := range e.known {
		known = append(known, named(k.Key))
	}
	return fmt.Sprintf("%s, but known_hosts has %s", shown, strings.Join(known, ", "))
}

func named(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }
