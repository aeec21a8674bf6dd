package notify_test

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
)

// A mailServer takes mail over SMTP, by STARTTLS or with TLS from the start.
type mailServer struct {
	addr, ca   string
	tls        *tls.Config
	implicit   bool
	noTLS      bool   // STARTTLS is not offered
	mechanisms string // of the login
	refuse     string // answer to RCPT, empty: taken

	mu       sync.Mutex
	logins   []string // user and password
	messages []string
	plain    bool // a message or login came without TLS
	to       []string
}

func serveMail(t *testing.T, set func(*mailServer)) *mailServer {
	t.Helper()
	web := httptest.NewUnstartedServer(nil) // for its certificate
	web.StartTLS()
	t.Cleanup(web.Close)
	s := &mailServer{tls: &tls.Config{Certificates: web.TLS.Certificates}, mechanisms: "PLAIN LOGIN", ca: filepath.Join(t.TempDir(), "ca.pem")}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if err := os.WriteFile(s.ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.implicit {
		l = tls.NewListener(l, s.tls)
	}
	s.addr = l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer conn.Close(); s.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return s
}

func (s *mailServer) serve(conn net.Conn) {
	secure := s.implicit
	r := textproto.NewReader(bufio.NewReader(conn))
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 mail.example")
	for {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch strings.ToUpper(verb) {
		case "EHLO":
			say("250-mail.example")
			if !secure && !s.noTLS {
				say("250-STARTTLS")
			}
			say("250 AUTH " + s.mechanisms)
		case "STARTTLS":
			say("220 go ahead")
			conn = tls.Server(conn, s.tls)
			secure, r = true, textproto.NewReader(bufio.NewReader(conn))
		case "AUTH":
			s.login(r, say, rest, secure)
		case "RCPT":
			s.mu.Lock()
			s.to = append(s.to, rest)
			s.mu.Unlock()
			if s.refuse != "" {
				say(s.refuse)
			} else {
				say("250 ok")
			}
		case "DATA":
			say("354 go ahead")
			data, err := io.ReadAll(r.DotReader())
			if err != nil {
				return
			}
			s.mu.Lock()
			s.messages, s.plain = append(s.messages, string(data)), s.plain || !secure
			s.mu.Unlock()
			say("250 queued")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (s *mailServer) login(r *textproto.Reader, say func(string), how string, secure bool) {
	decode := func(text string) string { b, _ := base64.StdEncoding.DecodeString(text); return string(b) }
	var login string
	if mechanism, first, _ := strings.Cut(how, " "); mechanism == "PLAIN" {
		login = strings.ReplaceAll(strings.TrimPrefix(decode(first), "\x00"), "\x00", " ")
	} else {
		say("334 VXNlcm5hbWU6")
		user, _ := r.ReadLine()
		say("334 UGFzc3dvcmQ6")
		password, _ := r.ReadLine()
		login = decode(user) + " " + decode(password)
	}
	s.mu.Lock()
	s.logins, s.plain = append(s.logins, login), s.plain || !secure
	s.mu.Unlock()
	if strings.HasSuffix(login, "hunter2") {
		say("235 welcome")
	} else {
		say("535 no such user or password: " + login)
	}
}

func (s *mailServer) place(t *testing.T, set func(*notify.PlaceOptions)) *notify.Place {
	t.Helper()
	scheme := "smtp://"
	if s.implicit {
		scheme = "smtps://"
	}
	o := notify.PlaceOptions{Provider: notify.Mail, URL: scheme + s.addr, Letter: notify.Letter{
		User: "zester", Password: file(t, "hunter2"), From: "Zester <zester@example.com>", To: []string{"ops@example.com", "Ada <ada@example.com>"}, CA: s.ca,
	}}
	if set != nil {
		set(&o)
	}
	return newPlace(t, o)
}

func TestMailIsSentEncryptedAndLoggedIn(t *testing.T) {
	for name, set := range map[string]func(*mailServer){
		"STARTTLS":   nil,
		"TLS":        func(s *mailServer) { s.implicit = true },
		"LOGIN only": func(s *mailServer) { s.mechanisms = "LOGIN" },
	} {
		t.Run(name, func(t *testing.T) {
			s := serveMail(t, set)
			e := blocked
			e.Text = "waits for approval: zwölf of 40 peels\r\n.\r\nBcc: evil@example.com"
			if err := s.place(t, nil).Send(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if len(s.messages) != 1 || s.plain || len(s.logins) != 1 || s.logins[0] != "zester hunter2" || len(s.to) != 2 || !strings.Contains(s.to[1], "<ada@example.com>") {
				t.Fatalf("%d messages, logins %q, to %q, without TLS: %v", len(s.messages), s.logins, s.to, s.plain)
			}
			m, err := mail.ReadMessage(strings.NewReader(s.messages[0]))
			if err != nil {
				t.Fatal(err)
			}
			subject, _ := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
			body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
			if err != nil {
				t.Fatal(err)
			}
			if subject != "[zester] 6d0a4f3 waits for approval" || m.Header.Get("Auto-Submitted") != "auto-generated" || m.Header.Get("Bcc") != "" || m.Header.Get("Message-ID") == "" {
				t.Errorf("header %v", m.Header)
			}
			if to, err := m.Header.AddressList("To"); err != nil || len(to) != 2 {
				t.Errorf("to %v, %v", to, err)
			}
			if !strings.Contains(string(body), "zwölf of 40 peels . Bcc: evil") || !strings.Contains(string(body), "next: zester sync approve 0123456789ab") {
				t.Errorf("body %s", body)
			}
		})
	}
}

func TestNoPasswordGoesToAServerThatIsNotWhoItSays(t *testing.T) {
	for name, c := range map[string]struct {
		server func(*mailServer)
		place  func(*notify.PlaceOptions)
		want   string
	}{
		"no STARTTLS":            {func(s *mailServer) { s.noTLS = true }, nil, "offers no STARTTLS"},
		"certificate of another": {nil, func(o *notify.PlaceOptions) { o.Letter.CA = "" }, "certificate"},
		"wrong password":         {nil, func(o *notify.PlaceOptions) { o.Letter.Password = file(t, "s3cret") }, "refuses the login"},
		"other logins":           {func(s *mailServer) { s.mechanisms = "GSSAPI" }, nil, "none of the logins"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveMail(t, c.server)
			err := s.place(t, c.place).Send(t.Context(), blocked)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v", err)
			}
			if len(s.messages) > 0 || s.plain {
				t.Error("something was sent")
			}
		})
	}
}

func TestARelayOnThisMachineNeedsNoTLS(t *testing.T) {
	s := serveMail(t, func(s *mailServer) { s.noTLS = true })
	err := s.place(t, func(o *notify.PlaceOptions) { o.Letter.User, o.Letter.Password = "", "" }).Send(t.Context(), blocked)
	if err != nil || len(s.messages) != 1 {
		t.Errorf("%d messages, %v", len(s.messages), err)
	}
}

func TestMailThatIsRefusedForGoodIsNotSentAgain(t *testing.T) {
	for answer, final := range map[string]bool{"550 no such user": true, "450 try later": false} {
		s := serveMail(t, func(s *mailServer) { s.refuse = answer })
		err := s.place(t, nil).Send(t.Context(), blocked)
		var e *outbound.Error
		if !errors.As(err, &e) || e.Final != final || !strings.Contains(err.Error(), answer[4:]) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

func TestAMailServerThatNeverEndsItsAnswerIsLeft(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := make(chan int)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		n := 0
		for line := []byte("220-" + strings.Repeat("x", 1000) + "\r\n"); err == nil && n < 1<<30; n += len(line) {
			_, err = conn.Write(line)
		}
		sent <- n
	}()
	s := &mailServer{addr: l.Addr().String(), noTLS: true}
	err = s.place(t, func(o *notify.PlaceOptions) { o.Letter.User, o.Letter.Password = "", "" }).Send(t.Context(), notify.Event{Kind: notify.Blocked})
	if err == nil || !strings.Contains(err.Error(), "it sends more than") {
		t.Errorf("error is %v", err)
	}
	if n := <-sent; n > 64<<20 {
		t.Errorf("%d bytes were read", n)
	}
}
