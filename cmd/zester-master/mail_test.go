package main_test

import (
	"bufio"
	"io"
	"mime/quotedprintable"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// openMailbox serves SMTP on a free port, and returns its address and the messages that it takes.
func openMailbox(t *testing.T) (address string, messages <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 10)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer conn.Close(); takeMail(conn, got) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return l.Addr().String(), got
}

func takeMail(conn io.ReadWriter, got chan<- string) {
	r := textproto.NewReader(bufio.NewReader(conn))
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 mail.example")
	for {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		switch strings.ToUpper(line) {
		case "DATA":
			say("354 go ahead")
			data, err := io.ReadAll(r.DotReader())
			if err != nil {
				return
			}
			got <- string(data)
			say("250 queued")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

const scheduleOfAReport = `schedule:
  shop-report:
    module: cmd.run
    args: {command: 'COMMAND'}
    interval: 2s
    return_job: failures
`

// A command that fails on a host is a mail with all that a person needs to begin: the host, the entry, the commit, what the
// command printed last without its secrets, and the command line that says more.
func TestAFailedCommandBecomesAMail(t *testing.T) {
	report := func(command string) string { return strings.Replace(scheduleOfAReport, "COMMAND", command, 1) }
	s := newSite(t, fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: []byte(report("true"))},
	})
	address, mails := openMailbox(t)
	s.write("master.yaml", `repo: fleet
listen: 127.0.0.1:0
poll: 1s
alerts:
  receivers:
    - {name: ops, provider: mail, url: "smtp://`+address+`", from: zester@example.com, to: [ops@example.com]}
`)
	s.daemon("zester-master", "--config", "master.yaml", "--data-dir", "master").waitFor("master is ready")
	creds := s.issue(grants.RolePeel, "web-01")
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", creds).waitFor("settings applied")
	s.zester(0, "sync", "wait", "--peels", "1", "--timeout", patience.String())
	for ctx := s.ctx(); !strings.Contains(s.zester(0, "schedule", "fires", "web-01", "shop-report"), "ran"); <-time.After(lookAgain) {
		if ctx.Err() != nil {
			t.Fatal("the entry does not run")
		}
	}

	commit := s.commit(map[string]string{"settings/all.yaml": report(
		`echo password=hunter2; seq 20 | sed "s/^/line /"; echo no data of yesterday >&2; exit 3`)})
	var mail string
	select {
	case mail = <-mails:
	case <-s.ctx().Done():
		t.Fatalf("no mail\n%s", s.zester(0, "alert", "status"))
	}
	_, body, _ := strings.Cut(mail, "\n\n")
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"shop-report failed on web-01", "exit status 3", commit[:8], "Ada", "\nnext: zester why web-01 shop-report",
		"\nthe end of its output on web-01, at ", "\n| line 20\n| no data of yesterday",
	} {
		if !strings.Contains(strings.ReplaceAll(string(text), "\r", ""), want) {
			t.Errorf("the mail lacks %q", want)
		}
	}
	if strings.Contains(mail, "hunter2") || !strings.Contains(mail, "Subject: [zester] shop-report failed on web-01") {
		t.Errorf("the mail is\n%s", mail)
	}
	// The command that it names is one.
	if out := s.zester(0, "why", "web-01", "shop-report"); !strings.Contains(out, "failed") || !strings.Contains(out, commit[:8]) {
		t.Errorf("zester why says\n%s", out)
	}
}
