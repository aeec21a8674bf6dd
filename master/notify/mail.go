package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

// A Letter holds the sender, the recipients and the login of mail.
type Letter struct {
	User     string   // for the login at the mail server; if empty, no login
	Password string   // file with its password
	From     string   // address
	To       []string // addresses, at most 20
	CA       string   // file with certificates in PEM that are trusted besides those of the system
}

func (l Letter) isZero() bool {
	return l.User == "" && l.Password == "" && l.From == "" && len(l.To) == 0 && l.CA == ""
}

const (
	mailTimeout = 30 * time.Second // for one message
	maxTo       = 20
	maxDialog   = 1 << 20 // bytes that the server may send for one message
)

// A mailbox sends mail through one server.
type mailbox struct {
	host, port string
	implicit   bool // TLS begins with the connection; otherwise with STARTTLS
	letter     Letter
	from       *mail.Address
	to         []*mail.Address
}

func newMailbox(server string, l Letter) (*mailbox, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" || u.User != nil || u.Path != "" {
		return nil, errors.New("its url is not smtp://HOST:PORT or smtps://HOST:PORT")
	}
	m := &mailbox{host: u.Hostname(), implicit: u.Scheme == "smtps", letter: l}
	m.port = cmp.Or(u.Port(), map[bool]string{true: "465", false: "587"}[m.implicit])
	if (l.User == "") != (l.Password == "") {
		return nil, errors.New(
			"user and password belong together: the user of the mail server, and the file with the password",
		)
	}
	if m.from, err = mail.ParseAddress(l.From); err != nil {
		return nil, fmt.Errorf("its from %.100q is no address of mail", l.From)
	}
	if len(l.To) == 0 || len(l.To) > maxTo {
		return nil, fmt.Errorf("it has %d addresses in to: want 1 to %d", len(l.To), maxTo)
	}
	for _, to := range l.To {
		address, err := mail.ParseAddress(to)
		if err != nil {
			return nil, fmt.Errorf("its to %.100q is no address of mail", to)
		}
		m.to = append(m.to, address)
	}
	return m, nil
}

// send delivers one message. An answer of 5xx is final, except to the login.
func (m *mailbox) send(ctx context.Context, text Text) error {
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	c, stop, err := m.dial(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := m.login(c); err != nil {
		return err
	}
	err = c.Mail(m.from.Address)
	for _, to := range m.to {
		if err == nil {
			err = c.Rcpt(to.Address)
		}
	}
	var w io.WriteCloser
	if err == nil {
		w, err = c.Data()
	}
	if err == nil {
		_, err = w.Write(m.message(text))
		err = cmp.Or(err, w.Close())
	}
	if err != nil {
		answer, ok := errors.AsType[*textproto.Error](err)
		return &outbound.Error{
			Err:   shortened("the mail server does not take the message", err),
			Final: ok && answer.Code/100 == 5,
		}
	}
	_ = c.Quit() // the message is delivered
	return nil
}

// dial connects and begins TLS. Without TLS it uses only a server on this machine, and no password. The connection is
// closed when ctx ends.
func (m *mailbox) dial(ctx context.Context) (*smtp.Client, func(), error) {
	roots, err := outbound.Roots(m.letter.CA)
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{ServerName: m.host, RootCAs: roots, MinVersion: tls.VersionTLS12}
	address := net.JoinHostPort(m.host, m.port)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, shortened("the mail server cannot be reached", err)
	}
	conn = &capped{Conn: conn, left: maxDialog}
	if m.implicit {
		conn = tls.Client(conn, config) // the handshake is at the first read
	}
	release := context.AfterFunc(ctx, func() { _ = conn.Close() })
	stop := func() { release(); _ = conn.Close() }
	c, err := smtp.NewClient(conn, m.host)
	if err == nil {
		err = m.secure(c, config)
	}
	if err != nil {
		stop()
		return nil, nil, shortened("the mail server cannot be used", err)
	}
	return c, stop, nil
}

// A capped connection bounds the bytes that are read: the answers of a server are kept in memory and may have any
// length.
type capped struct {
	net.Conn
	left int // bytes
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("it sends more than %d bytes", maxDialog)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (m *mailbox) secure(c *smtp.Client, config *tls.Config) error {
	if m.implicit {
		return nil
	}
	if ok, _ := c.Extension("STARTTLS"); ok {
		return c.StartTLS(config)
	}
	if m.letter.User == "" && outbound.Loopback(m.host) {
		return nil
	}
	return errors.New("it offers no STARTTLS, and everybody on the way could read the mail")
}

func (m *mailbox) login(c *smtp.Client) error {
	if m.letter.User == "" {
		return nil
	}
	password, err := outbound.ReadGuardedSecret(m.letter.Password)
	if err != nil {
		return err
	}
	_, mechanisms := c.Extension("AUTH")
	all := strings.Fields(strings.ToUpper(mechanisms))
	var auth smtp.Auth
	switch {
	case slices.Contains(all, "PLAIN"):
		auth = smtp.PlainAuth("", m.letter.User, password, m.host)
	case slices.Contains(all, "LOGIN"):
		auth = &loginAuth{user: m.letter.User, password: password}
	default:
		return fmt.Errorf("the mail server offers none of the logins PLAIN and LOGIN, but %q",
			outbound.Line(mechanisms, 100))
	}
	if err := c.Auth(auth); err != nil {
		return errors.New(strings.ReplaceAll(shortened("the mail server refuses the login", err).Error(), password,
			"(hidden)"))
	}
	return nil
}

// loginAuth is the login that Exchange offers: the server asks for the user, then for the password.
type loginAuth struct {
	user, password string
	asked          int
}

func (a *loginAuth) Start(s *smtp.ServerInfo) (string, []byte, error) {
	if !s.TLS {
		return "", nil, errors.New("no password is sent without TLS")
	}
	return "LOGIN", nil, nil
}

func (a *loginAuth) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	a.asked++
	switch a.asked {
	case 1:
		return []byte(a.user), nil
	case 2:
		return []byte(a.password), nil
	}
	return nil, errors.New("the server asks for more than user and password")
}

// message returns the mail. A header prevents automatic answers (RFC 3834).
func (m *mailbox) message(text Text) []byte {
	var b bytes.Buffer
	field := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	to := make([]string, len(m.to))
	for i, address := range m.to {
		to[i] = address.String()
	}
	field("From", m.from.String())
	field("To", strings.Join(to, ",\r\n "))
	field("Subject", mime.QEncoding.Encode("utf-8", outbound.Line("[zester] "+text.Title, 200)))
	field("Date", text.Time.Format(time.RFC1123Z))
	_, host, _ := strings.Cut(m.from.Address, "@")
	field("Message-ID", "<"+cmp.Or(text.ID, rand.Text())+"@"+host+">")
	field("Auto-Submitted", "auto-generated")
	field("MIME-Version", "1.0")
	field("Content-Type", "text/plain; charset=utf-8")
	field("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = io.WriteString(w, text.Title+"\r\n\r\n"+strings.Join(text.Lines, "\r\n")+"\r\n") // into memory
	_ = w.Close()
	return b.Bytes()
}

// shortened returns an error of a mail server as one line.
func shortened(what string, err error) error {
	return errors.New(what + ": " + outbound.Line(err.Error(), 200))
}
