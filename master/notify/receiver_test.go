package notify_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var (
	at   = time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	some = notify.AlertMessage{
		ID: "backups/backup-db", Event: "0123456789abcdef0123456789abcdef", Phase: notify.AlertBegan, Rule: "backups", Subject: "backup-db",
		Troubles: []verdict.Kind{verdict.Failed, verdict.Missed}, Peels: 12, Names: []target.PeelID{"db-1", "db-2"}, Text: "exit code 3: password=hunter2",
		Began: at.Add(-time.Minute), Time: at,
	}
)

// ended returns the message about the end of the alert in some.
func ended() notify.AlertMessage {
	m := some
	m.Phase, m.Ended = notify.AlertEnded, at
	return m
}

// A web is an HTTP server on loopback that keeps the requests it gets.
type web struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []*http.Request
	bodies []string
	answer func(w http.ResponseWriter, r *http.Request) // nil: 200
}

func receiverServe(t *testing.T) *web {
	t.Helper()
	s := &web{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked, s.bodies = append(s.asked, r), append(s.bodies, string(body))
		answer := s.answer
		s.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func receiverFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func made(t *testing.T, o notify.ReceiverOptions) *notify.Receiver {
	t.Helper()
	o.Name = "ops"
	r, err := notify.NewReceiver(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send sends messages, and fails the test unless all are sent.
func send(t *testing.T, r *notify.Receiver, all ...notify.AlertMessage) {
	t.Helper()
	if n, err := r.Send(t.Context(), all); n != len(all) || err != nil {
		t.Fatalf("%d of %d sent, %v", n, len(all), err)
	}
}

func decoded(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

func TestNoServerGetsTheSecretsOfACommand(t *testing.T) {
	for _, o := range []notify.ReceiverOptions{
		{Provider: notify.ReceiverPagerDuty, Key: receiverFile(t, "r0uting-key")}, {Provider: notify.ReceiverAlertmanager}, {Provider: notify.ReceiverWebhook, Secret: receiverFile(t, "a-secret-of-many-bytes")},
	} {
		s := receiverServe(t)
		o.URL = s.URL
		send(t, made(t, o), some)
		if all := strings.Join(s.bodies, ""); !strings.Contains(all, "exit code 3") || strings.Contains(all, "hunter2") {
			t.Errorf("%s gets %s", o.Provider, all)
		}
	}
}

func TestPagerDutyGetsEventsOfItsAPI(t *testing.T) {
	s := receiverServe(t)
	r := made(t, notify.ReceiverOptions{Provider: notify.ReceiverPagerDuty, URL: s.URL + "/v2/enqueue", Key: receiverFile(t, "r0uting-key")})
	send(t, r, some, ended())
	var events []struct {
		RoutingKey string `json:"routing_key"`
		Action     string `json:"event_action"`
		DedupKey   string `json:"dedup_key"`
		Payload    *struct{ Summary, Source, Severity, Timestamp, Component, Group string }
	}
	decoded(t, "["+strings.Join(s.bodies, ",")+"]", &events)
	if len(events) != 2 || events[0].RoutingKey != "r0uting-key" || events[0].Action != "trigger" || events[1].Action != "resolve" || events[0].DedupKey != events[1].DedupKey {
		t.Fatalf("%+v", events)
	}
	if p := events[0].Payload; p.Summary != "backup-db failed, missed on 12 peels" || p.Severity != "error" || p.Component != "backup-db" || p.Group != "backups" || p.Source == "" || p.Timestamp != "2026-06-01T09:00:00Z" {
		t.Errorf("%+v", p)
	}
	if n := len(events[0].DedupKey); n == 0 || n > 255 {
		t.Errorf("a key of %d characters", n)
	}
	other := some
	other.ID = "backups/other"
	send(t, r, other)
	var third struct {
		DedupKey string `json:"dedup_key"`
	}
	if decoded(t, s.bodies[2], &third); third.DedupKey == events[0].DedupKey {
		t.Error("two alerts have one key")
	}
}

func TestAlertmanagerGetsAlertsOfItsAPI(t *testing.T) {
	s := receiverServe(t)
	r := made(t, notify.ReceiverOptions{Provider: notify.ReceiverAlertmanager, URL: s.URL + "/prefix"})
	lasts := some
	lasts.Phase = notify.AlertLasts
	send(t, r, some, ended(), lasts)
	var alerts []struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
	}
	decoded(t, s.bodies[0], &alerts)
	if len(s.bodies) != 1 || s.asked[0].URL.Path != "/prefix/api/v2/alerts" || len(alerts) != 3 || !r.Forgets() {
		t.Fatalf("%d requests of %s: %+v", len(s.bodies), s.asked[0].URL, alerts)
	}
	if a := alerts[0]; a.Labels["alertname"] != "backups" || a.Labels["subject"] != "backup-db" || !a.StartsAt.Equal(some.Began) || !a.EndsAt.Equal(at.Add(5*time.Minute)) || a.Annotations["summary"] == "" {
		t.Errorf("%+v", a)
	}
	if !alerts[1].EndsAt.Equal(at) || len(alerts[1].Labels) != 3 {
		t.Errorf("%+v", alerts[1])
	}
	for i := range alerts { // Alertmanager knows an alert by its labels
		if alerts[i].Labels["subject"] != alerts[0].Labels["subject"] || alerts[i].Labels["alertname"] != alerts[0].Labels["alertname"] {
			t.Errorf("%v and %v", alerts[i].Labels, alerts[0].Labels)
		}
	}
}

func TestAWebhookGetsSignedCloudEvents(t *testing.T) {
	s := receiverServe(t)
	r := made(t, notify.ReceiverOptions{Provider: notify.ReceiverWebhook, URLFile: receiverFile(t, s.URL+"/hook"), Secret: receiverFile(t, "0123456789abcdef")})
	send(t, r, some, ended())
	var event struct {
		SpecVersion, ID, Source, Type, Subject string
		Time                                   time.Time
		Data                                   struct {
			Rule     string
			Troubles []string
			Peels    int
			First    []string `json:"first_peels"`
			Title    string
			Ended    time.Time
		}
	}
	decoded(t, s.bodies[0], &event)
	if event.SpecVersion != "1.0" || event.ID != some.Event || event.Type != "zester.alert.began" || event.Subject != some.ID || event.Source != "/zester/alerts" || !event.Time.Equal(at) {
		t.Errorf("%+v", event)
	}
	if d := event.Data; d.Rule != "backups" || d.Peels != 12 || !slices.Equal(d.First, []string{"db-1", "db-2"}) || len(d.Troubles) != 2 || !d.Ended.IsZero() {
		t.Errorf("%+v", d)
	}
	if h := s.asked[0].Header; h.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" || !strings.HasPrefix(h.Get("X-Signature"), "sha256=") || len(h.Get("X-Signature")) != 71 {
		t.Errorf("header %v", h)
	}
	if decoded(t, s.bodies[1], &event); event.Type != "zester.alert.ended" || !event.Data.Ended.Equal(at) {
		t.Errorf("%+v", event)
	}
}

func TestChatsGetOneMessageOfManyAlerts(t *testing.T) {
	for _, provider := range []notify.ReceiverProvider{notify.ReceiverSlack, notify.ReceiverTeams} {
		s := receiverServe(t)
		r := made(t, notify.ReceiverOptions{Provider: provider, URL: s.URL + "/services/k3y"})
		send(t, r, some)
		for _, want := range []string{"backup-db failed, missed on 12 peels", "db-1, db-2 and 10 more", "since 2026-06-01T08:59:00Z", "exit code 3", "backups/backup-db"} {
			if !strings.Contains(s.bodies[0], want) {
				t.Errorf("%s lacks %q: %s", provider, want, s.bodies[0])
			}
		}
		if strings.Contains(s.bodies[0], "hunter2") {
			t.Errorf("%s tells a password: %s", provider, s.bodies[0])
		}
		many := []notify.AlertMessage{ended()}
		for range 200 {
			many = append(many, some)
		}
		send(t, r, many...)
		if len(s.bodies) != 2 || !strings.Contains(s.bodies[1], "200 alerts, 1 ended") || !strings.Contains(s.bodies[1], "ended: backup-db") || len(s.bodies[1]) > 28<<10 {
			t.Errorf("%s: %d messages, the last of %d bytes", provider, len(s.bodies), len(s.bodies[1]))
		}
		if !r.Joins() || r.Forgets() {
			t.Errorf("%s is not a chat", provider)
		}
	}
}

// If a server does not accept a message, Send ends with an error that says whether another attempt may succeed.
func TestServersThatDoNotTakeMessages(t *testing.T) {
	elsewhere := receiverServe(t)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		final  bool
		after  time.Duration
		want   string
	}{
		"too many": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "90"); w.WriteHeader(429) }, false, 90 * time.Second, "429"},
		"down":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, false, 0, "503"},
		"refused":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, true, 0, "400"},
		"no right": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, false, 0, "credential"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, false, 0, "its url has changed"},
		"hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, 0, ""},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "\x1b[2J\x00"+strings.Repeat("k3y-of-ops ", 1<<16))
		}, false, 0, "500"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for range 64 {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		}, true, 0, "more than"},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-never:
			case <-r.Context().Done():
			}
		}, false, 0, ""},
	} {
		for _, o := range []notify.ReceiverOptions{
			{Provider: notify.ReceiverSlack}, {Provider: notify.ReceiverTeams}, {Provider: notify.ReceiverWebhook}, {Provider: notify.ReceiverAlertmanager}, {Provider: notify.ReceiverPagerDuty, Key: receiverFile(t, "k3y-of-ops")},
		} {
			s := receiverServe(t)
			s.answer = c.answer
			o.URL = s.URL + "/k3y-of-ops"
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if name == "slow" {
				ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
			}
			n, err := made(t, o).Send(ctx, []notify.AlertMessage{some, ended()})
			cancel()
			var known *outbound.Error
			if n != 0 || !errors.As(err, &known) || known.Final != c.final || known.After != c.after || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %d sent, %v", o.Provider, name, n, err)
			}
			if err != nil && (strings.Contains(err.Error(), "k3y") || strings.ContainsAny(err.Error(), "\x1b\x00\n") || len(err.Error()) > 500 || !strings.Contains(err.Error(), `"ops"`)) {
				t.Errorf("%s, %s: %v", o.Provider, name, err)
			}
		}
	}
	if len(elsewhere.asked) > 0 {
		t.Error("a redirect was followed")
	}
}

// The messages that the server accepted before an error are not sent again.
func TestTheMessagesBeforeAnErrorCountAsSent(t *testing.T) {
	s := receiverServe(t)
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		if len(s.bodies) > 2 {
			w.WriteHeader(503)
		}
	}
	r := made(t, notify.ReceiverOptions{Provider: notify.ReceiverWebhook, URL: s.URL})
	if n, err := r.Send(t.Context(), []notify.AlertMessage{some, some, some, some}); n != 2 || err == nil {
		t.Errorf("%d sent, %v", n, err)
	}
}

// post accepts one mail on loopback, where neither TLS nor a login is needed.
func post(t *testing.T, refusal string) (address string, mail <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := textproto.NewReader(bufio.NewReader(conn))
		say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
		say("220 mail.example")
		for {
			line, err := r.ReadLine()
			switch {
			case err != nil:
				return
			case strings.HasPrefix(line, "RCPT") && refusal != "":
				say(refusal)
			case strings.HasPrefix(line, "DATA"):
				say("354 go ahead")
				text, _ := io.ReadAll(r.DotReader())
				got <- string(text)
				say("250 queued")
			case strings.HasPrefix(line, "QUIT"):
				say("221 bye")
				return
			default:
				say("250 ok")
			}
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return "smtp://" + l.Addr().String(), got
}

func TestMailIsSent(t *testing.T) {
	letter := notify.Letter{From: "zester@example.com", To: []string{"ops@example.com"}}
	url, mail := post(t, "")
	send(t, made(t, notify.ReceiverOptions{Provider: notify.ReceiverMail, URL: url, Letter: letter}), some)
	if text := <-mail; !strings.Contains(text, "Subject: [zester] backup-db failed, missed on 12 peels") || !strings.Contains(text, "Message-ID: <"+some.Event+"@example.com>") || !strings.Contains(text, "peels: db-1, db-2 and 10 more") {
		t.Errorf("the mail is %s", text)
	}
	for answer, final := range map[string]bool{"550 no such user": true, "450 try later": false} {
		url, _ := post(t, answer)
		n, err := made(t, notify.ReceiverOptions{Provider: notify.ReceiverMail, URL: url, Letter: letter}).Send(t.Context(), []notify.AlertMessage{some})
		var known *outbound.Error
		if n != 0 || !errors.As(err, &known) || known.Final != final {
			t.Errorf("%s: %d sent, %v", answer, n, err)
		}
	}
}

func TestATestMessageSaysThatItIsOne(t *testing.T) {
	test := notify.AlertMessage{ID: "test/ops", Event: "abc", Phase: notify.AlertTest, Rule: "zester-test", Subject: "test", Began: at, Time: at}
	for _, o := range []notify.ReceiverOptions{
		{Provider: notify.ReceiverSlack}, {Provider: notify.ReceiverTeams}, {Provider: notify.ReceiverWebhook}, {Provider: notify.ReceiverAlertmanager}, {Provider: notify.ReceiverPagerDuty, Key: receiverFile(t, "key-of-ops")},
	} {
		s := receiverServe(t)
		o.URL = s.URL
		send(t, made(t, o), test)
		if !strings.Contains(s.bodies[0], "test message of zester") {
			t.Errorf("%s: %s", o.Provider, s.bodies[0])
		}
	}
}

func TestAnAddressIsCalled(t *testing.T) {
	s := receiverServe(t)
	call, err := notify.NewReceiverCall(outbound.Address{File: receiverFile(t, s.URL+"/ping/uuid")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := call.Do(t.Context()); err != nil || len(s.asked) != 1 || s.asked[0].Method != "GET" || s.asked[0].URL.Path != "/ping/uuid" {
		t.Errorf("%d requests, %v", len(s.asked), err)
	}
	s.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }
	if err := call.Do(t.Context()); err == nil || strings.Contains(err.Error(), "uuid") {
		t.Errorf("error is %v", err)
	}
	if _, err := notify.NewReceiverCall(outbound.Address{}, nil); err == nil {
		t.Error("no address is accepted")
	}
}

func TestWrongOptionsOfReceivers(t *testing.T) {
	letter := notify.Letter{From: "a@example.com", To: []string{"b@example.com"}}
	for want, o := range map[string]notify.ReceiverOptions{
		`cannot send alerts to "a b": want a name`: {Name: "a b", Provider: notify.ReceiverSlack, URL: "https://h.example"},
		`provider "sms" is none of`:                {Name: "ops", Provider: "sms", URL: "https://h.example"},
		"one of url and url_file is required":      {Name: "ops", Provider: notify.ReceiverSlack},
		"a key is for pagerduty":                   {Name: "ops", Provider: notify.ReceiverSlack, URL: "https://h.example", Key: "k"},
		"key is required":                          {Name: "ops", Provider: notify.ReceiverPagerDuty},
		"a secret is for webhooks":                 {Name: "ops", Provider: notify.ReceiverAlertmanager, URL: "https://h.example", Secret: "s"},
		"user, password, from and to are for mail": {Name: "ops", Provider: notify.ReceiverWebhook, URL: "https://h.example", Letter: letter},
		"its url is not one of http":               {Name: "ops", Provider: notify.ReceiverAlertmanager, URL: "ftp://h.example"},
		"its url is not smtp":                      {Name: "ops", Provider: notify.ReceiverMail, URL: "https://h.example", Letter: letter},
	} {
		if _, err := notify.NewReceiver(o); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), `"ops"`) > 1 {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	if _, err := notify.NewReceiver(notify.ReceiverOptions{Name: "ops", Provider: notify.ReceiverPagerDuty, Key: "k"}); err != nil {
		t.Errorf("the address of PagerDuty is not known: %v", err)
	}
}
