package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/net/proxy"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

// sshSource sends requests to an ssh server, with a key from a file or the user's
// agent. Only hosts in known_hosts are trusted.
type sshSource struct {
	address *Address
	access  outbound.Options
}

func (s *sshSource) close() {}

func (s *sshSource) resolve(ctx context.Context, ref plumbing.ReferenceName) (tip plumbing.Hash, err error) {
	err = s.run(ctx, fetching, func(refs *packp.AdvRefs, _ io.WriteCloser, _ io.Reader) (err error) {
		tip, err = pick(refs.References, ref)
		return err
	})
	return tip, err
}

func (s *sshSource) fetch(ctx context.Context, f Request) error {
	return s.run(ctx, fetching, func(refs *packp.AdvRefs, to io.WriteCloser, from io.Reader) error {
		return uploadPack(refs, f, sendTo(to, from))
	})
}

func (s *sshSource) push(ctx context.Context, u Update) error {
	return s.run(ctx, pushing, func(refs *packp.AdvRefs, to io.WriteCloser, from io.Reader) error {
		return receivePack(refs, u, sendTo(to, from))
	})
}

func sendTo(to io.WriteCloser, from io.Reader) func([]byte) (io.ReadCloser, error) {
	return func(request []byte) (io.ReadCloser, error) {
		_, err := to.Write(request)
		_ = to.Close() // fails if the server has answered and hung up already
		return io.NopCloser(from), err
	}
}

// run runs a service on the server, and calls do with the references that it
// lists and the connection, which is closed when ctx ends.
func (s *sshSource) run(ctx context.Context, service string,
	do func(*packp.AdvRefs, io.WriteCloser, io.Reader) error,
) error {
	ep, err := transport.NewEndpoint(s.address.raw)
	if err != nil {
		return fail(NotFound, "not a URL: %v", err)
	}
	config, err := s.config(ep)
	if err != nil {
		return err
	}
	conn, err := s.dial(ctx, hostPort(ep))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	quoted := strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(ep.Path) // as git does, also for csh
	command := service + " '" + quoted + "'"
	return session(conn, hostPort(ep), config, command, func(to io.WriteCloser, from io.Reader) error {
		refs, err := readRefs(from)
		if err != nil {
			return err
		}
		return do(refs, to, from)
	})
}

// session runs a command on the server. If the server answers nothing, the error is
// its standard error.
func session(conn net.Conn, addr string, config *ssh.ClientConfig, command string,
	do func(io.WriteCloser, io.Reader) error,
) error {
	client, err := newClient(ssh.NewClientConn(conn, addr, config))
	if err != nil {
		return err
	}
	defer client.Close()
	sess, err := client.NewSession()
	if err != nil {
		return err
	}
	to, err := sess.StdinPipe()
	if err != nil {
		return err
	}
	from, err := sess.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr limited
	sess.Stderr = &stderr
	if err := sess.Start(command); err != nil {
		return err
	}
	err = do(to, from)
	if errors.Is(err, packp.ErrEmptyInput) {
		_ = to.Close()
		_ = sess.Wait() // until stderr is complete
		if text := strings.TrimSpace(stderr.String()); text != "" {
			return &serverError{text}
		}
	}
	return err
}

// newClient takes the results of [ssh.NewClientConn].
func newClient(c ssh.Conn, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request,
	err error,
) (*ssh.Client, error) {
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

// limited keeps the first maxForeign bytes that are written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), maxForeign-min(l.Len(), maxForeign))])
	return len(p), nil
}

// dial connects through the configured proxy, or the proxy of the environment.
func (s *sshSource) dial(ctx context.Context, addr string) (net.Conn, error) {
	via, err := s.access.ProxyURL("ssh")
	if err != nil {
		return nil, err
	}
	if via == nil {
		return proxy.Dial(ctx, "tcp", addr)
	}
	d, err := proxy.FromURL(via, proxy.Direct)
	if err != nil {
		return nil, err
	}
	return d.(proxy.ContextDialer).DialContext(ctx, "tcp", addr)
}

// hostPort returns the address to dial. The user's ssh configuration counts, as
// go-git reads it.
func hostPort(ep *transport.Endpoint) string {
	host, port := ep.Host, ep.Port
	if name := gitssh.DefaultSSHConfig.Get(ep.Host, "Hostname"); name != "" {
		host = name
		if n, err := strconv.Atoi(gitssh.DefaultSSHConfig.Get(ep.Host, "Port")); err == nil {
			port = n
		}
	}
	if port <= 0 {
		port = gitssh.DefaultPort
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// config returns the client configuration with the key and the known hosts.
func (s *sshSource) config(ep *transport.Endpoint) (*ssh.ClientConfig, error) {
	user := cmp.Or(ep.User, gitssh.DefaultUsername)
	if s.access.SSHKey == "" {
		agent, err := gitssh.NewSSHAgentAuth(user)
		if err != nil {
			return nil, err
		}
		if agent.HostKeyCallbackHelper, err = s.hosts(ep); err != nil {
			return nil, err
		}
		return agent.ClientConfig()
	}
	unusable := func(verb string, err error) error {
		return fail(CredentialsUnreadable, "cannot %s the ssh key in %s: %v", verb, s.access.SSHKey, err)
	}
	data, err := outbound.ReadPrivate(s.access.SSHKey)
	if err != nil {
		return nil, unusable("read", err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		err = errors.New("it is protected by a passphrase; use one that is not, or the agent")
	}
	if err != nil {
		return nil, unusable("use", err)
	}
	helper, err := s.hosts(ep)
	if err != nil {
		return nil, err
	}
	return (&gitssh.PublicKeys{User: user, Signer: key, HostKeyCallbackHelper: helper}).ClientConfig()
}

// hosts returns the check of the server's host key, and the algorithms of the
// trusted keys.
func (s *sshSource) hosts(ep *transport.Endpoint) (gitssh.HostKeyCallbackHelper, error) {
	var files []string
	if s.access.KnownHosts != "" {
		if _, err := outbound.ReadLimited(s.access.KnownHosts, outbound.MaxKeys); err != nil {
			return gitssh.HostKeyCallbackHelper{}, fail(HostKey, "cannot read the known hosts in %s: %v",
				s.access.KnownHosts, err)
		}
		files = []string{s.access.KnownHosts}
	}
	known, err := gitssh.NewKnownHostsDb(files...)
	if err != nil {
		return gitssh.HostKeyCallbackHelper{}, fail(HostKey, "cannot read the known hosts: %v", err)
	}
	trusted := known.HostKeyCallback()
	return gitssh.HostKeyCallbackHelper{
		HostKeyAlgorithms: known.HostKeyAlgorithms(hostPort(ep)),
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			err := trusted(host, remote, key)
			if unknown, ok := errors.AsType[*knownhosts.KeyError](err); ok {
				return &hostKeyError{offered: key, known: unknown.Want}
			}
			return err
		},
	}, nil
}

// hostKeyError: the server's host key is not in known_hosts.
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
