package notify_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/reconciler/webhook"
	"github.com/seed-c01c3da5/zester/settings"
)

var blocked = notify.Event{
	Kind: notify.Blocked, Time: time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC), Repo: "https://forge.example/ops/fleet", Branch: "main",
	Revision: notify.Revision{Commit: commit, Author: "Ada", Subject: "<!channel> *drop* <https://evil.example|all>"},
	Text:     "waits for approval: 40 % of the entries change", Details: []string{"plan 0123456789ab"},
	Command: "zester sync approve 0123456789ab",
}

// posted is the message that a place sends of an event.
func posted(t *testing.T, p notify.PlaceProvider, e notify.Event) (body []byte) {
	t.Helper()
	s := serve(t)
	s.status = http.StatusOK
	if err := newPlace(t, notify.PlaceOptions{Provider: p, URL: s.URL + "/services/T0/B0/k3y"}).Send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return []byte(s.asked[0].body)
}

type slack struct {
	Text   string
	Blocks []struct {
		Type string
		Text struct{ Type, Text string }
	}
}

func TestSlackGetsPlainTextOfEveryEvent(t *testing.T) {
	var m slack
	if err := json.Unmarshal(posted(t, notify.Slack, blocked), &m); err != nil {
		t.Fatal(err)
	}
	if m.Text != "6d0a4f3 waits for approval: waits for approval: 40 % of the entries change" || len(m.Blocks) != 2 {
		t.Errorf("%+v", m)
	}
	for _, b := range m.Blocks {
		if b.Text.Type != "plain_text" {
			t.Errorf("%+v is not plain", b)
		}
	}
	const want = "waits for approval: 40 % of the entries change\nplan 0123456789ab\nrevision: " + commit + " <!channel> *drop* <https://evil.example|all>\nauthor: Ada\nnext: zester sync approve 0123456789ab\nbranch: main of https://forge.example/ops/fleet"
	if m.Blocks[0].Type != "header" || m.Blocks[0].Text.Text != "6d0a4f3 waits for approval" || m.Blocks[1].Text.Text != want {
		t.Errorf("%+v", m.Blocks)
	}
	e := blocked
	e.Text = "<!channel> & <@U1>"
	if err := json.Unmarshal(posted(t, notify.Slack, e), &m); err != nil || strings.ContainsAny(m.Text, "<>") {
		t.Errorf("%q, %v", m.Text, err)
	}
}

func TestMessagesKeepToTheLimitsOfChats(t *testing.T) {
	e := blocked
	e.Text, e.Where, e.Revision.Subject = strings.Repeat("ä", 10_000), strings.Repeat("x/", 5_000), strings.Repeat("本", 5_000)
	for n := range 500 {
		e.Details = append(e.Details, fmt.Sprintf("%d %s", n, strings.Repeat("z", 2_000)))
	}
	var m slack
	body := posted(t, notify.Slack, e)
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	for _, b := range m.Blocks {
		if utf8.RuneCountInString(b.Text.Text) > map[string]int{"header": 150, "section": 3000}[b.Type] {
			t.Errorf("%s has %d characters", b.Type, utf8.RuneCountInString(b.Text.Text))
		}
	}
	if !strings.Contains(string(body), "…") {
		t.Error("nothing says that text was cut")
	}
	if body = posted(t, notify.Teams, e); len(body) > 28<<10 || !strings.Contains(string(body), "and 489 lines more") {
		t.Errorf("a message of %d bytes", len(body))
	}
}

func TestTeamsGetsACardWithoutMarkdown(t *testing.T) {
	var m struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type, Version string
				Body          []struct {
					Type    string
					Inlines []struct{ Type, Text string }
				}
			}
		}
	}
	if err := json.Unmarshal(posted(t, notify.Teams, blocked), &m); err != nil {
		t.Fatal(err)
	}
	card := m.Attachments[0].Content
	if m.Type != "message" || m.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" || card.Type != "AdaptiveCard" || card.Version != "1.4" {
		t.Fatalf("%+v", m)
	}
	var all strings.Builder
	for _, b := range card.Body {
		if b.Type != "RichTextBlock" || b.Inlines[0].Type != "TextRun" { // the one element that reads no Markdown
			t.Errorf("%+v", b)
		}
		all.WriteString(b.Inlines[0].Text + "\n")
	}
	if !strings.HasPrefix(all.String(), "6d0a4f3 waits for approval\n") || !strings.Contains(all.String(), "next: zester sync approve 0123456789ab\n") {
		t.Errorf("%s", all.String())
	}
	s := serve(t)
	s.status, s.answer = http.StatusOK, "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429"
	if err := newPlace(t, notify.PlaceOptions{Provider: notify.Teams, URL: s.URL}).Send(t.Context(), blocked); err == nil || !strings.Contains(err.Error(), "delivery failed") {
		t.Errorf("error is %v", err)
	}
}

func TestTheAddressOfAChatIsASecret(t *testing.T) {
	s := serve(t)
	s.status, s.answer = http.StatusNotFound, "no_service /services/T0/B0/k3y-of-the-chat"
	for name, o := range map[string]notify.PlaceOptions{
		"url":      {Provider: notify.Slack, URL: s.URL + "/services/T0/B0/k3y-of-the-chat"},
		"url_file": {Provider: notify.Slack, URLFile: file(t, s.URL+"/services/T0/B0/k3y-of-the-chat\n")},
		"closed":   {Provider: notify.Slack, URL: "http://127.0.0.1:1/services/T0/B0/k3y-of-the-chat"},
		"no URL":   {Provider: notify.Slack, URLFile: file(t, "k3y-of-the-chat")},
	} {
		err := newPlace(t, o).Send(t.Context(), blocked)
		if err == nil || strings.Contains(err.Error(), "k3y") || strings.Contains(err.Error(), "/services") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(s.asked) != 2 || s.asked[1].path != "/services/T0/B0/k3y-of-the-chat" {
		t.Errorf("asked %+v", s.asked)
	}
}

func TestCredentialsInTextsAreHidden(t *testing.T) {
	for text, want := range map[string]string{
		"cannot fetch https://ada:hunter2@forge.example/x":         "cannot fetch https://(hidden)@forge.example/x",
		"GET /x?access_token=hunter2&page=2":                       "GET /x?access_token=(hidden)&page=2",
		`db_password: "hunter2 two" is refused`:                    "db_password: (hidden) is refused",
		"header Authorization: Bearer hunter2":                     "header Authorization: Bearer (hidden)",
		"AGE-SECRET-KEY-1HUNTER2 and ENC[AES256_GCM,data:hunter2]": "(hidden) and (hidden)",
		"no token, 3 secrets and a password file":                  "no token, 3 secrets and a password file",
	} {
		e := blocked
		e.Text, e.Details = text, []string{text}
		if body := string(posted(t, notify.Webhook, e)); strings.Contains(strings.ToLower(body), "hunter2") {
			t.Errorf("posted %s", body)
		}
		var got struct{ Text, Details string }
		if err := json.Unmarshal(posted(t, notify.Webhook, e), &got); err != nil || got.Text != want || got.Details != want {
			t.Errorf("%q became %q, %v", text, got.Text, err)
		}
	}
}

// A commit of a program has the author token:NAME, which is no secret.
func TestTheAuthorOfACommitOfAProgramIsShown(t *testing.T) {
	for author, want := range map[string]string{
		"token:ci <token+ci@zester.invalid>": "token:ci <token+ci@zester.invalid>",
		"token:ci password=hunter2":          "token:ci password=(hidden)",
		"Ada token: hunter2":                 "Ada token: (hidden)",
	} {
		e := blocked
		e.Revision.Author = author
		var got struct{ Author string }
		if err := json.Unmarshal(posted(t, notify.Webhook, e), &got); err != nil || got.Author != want {
			t.Errorf("%q became %q, %v", author, got.Author, err)
		}
	}
}

func TestEveryKindHasATitle(t *testing.T) {
	o := notify.PlaceOptions{Provider: notify.Webhook, URL: "https://chat.example/x"}
	p := newPlace(t, o)
	for _, k := range []notify.Kind{
		notify.Progressing, notify.Gate, notify.Blocked, notify.Rejected, notify.WaveFailed, notify.Completed, notify.Incomplete, notify.Superseded, notify.FetchFailed,
		notify.Stalled, notify.Recovered, notify.Frozen, notify.Pinned, notify.Unpinned, notify.Paused, notify.Resumed, notify.LeaderChanged, notify.PeelsFailed,
	} {
		for _, c := range []settings.Commit{"", "6d0a4f3c4d0c1ab6", "a\x00\xff\n\n"} {
			title := notify.Event{Kind: k, Revision: notify.Revision{Commit: c}}.Title()
			if !p.Wants(k) || len(title) < 10 || strings.ContainsAny(title, "%\n\x00") || strings.Contains(title, "6d0a4f3c") {
				t.Errorf("%s of %q: %q", k, c, title)
			}
		}
	}
}

func TestPlacesGetTheEventsTheyName(t *testing.T) {
	for _, c := range []struct {
		o            notify.PlaceOptions
		wants, lacks []notify.Kind
	}{
		{notify.PlaceOptions{Provider: notify.Slack, URL: "https://chat.example/x"}, []notify.Kind{notify.Blocked, notify.FetchFailed, notify.PeelsFailed, notify.Completed}, []notify.Kind{notify.Progressing, notify.Superseded}},
		{notify.PlaceOptions{Provider: notify.Webhook, URL: "https://chat.example/x"}, []notify.Kind{notify.Progressing, notify.Pinned}, nil},
		{notify.PlaceOptions{Provider: notify.Gitea, URL: "https://forge.example/a/b", Token: "t"}, []notify.Kind{notify.Progressing, notify.Superseded}, []notify.Kind{notify.Pinned, notify.FetchFailed}},
		{notify.PlaceOptions{Provider: notify.Teams, URL: "https://chat.example/x", Events: []notify.Kind{notify.Paused}}, []notify.Kind{notify.Paused}, []notify.Kind{notify.Blocked}},
	} {
		p := newPlace(t, c.o)
		for _, k := range c.wants {
			if !p.Wants(k) {
				t.Errorf("%s does not want %s", c.o.Provider, k)
			}
		}
		for _, k := range c.lacks {
			if p.Wants(k) {
				t.Errorf("%s wants %s", c.o.Provider, k)
			}
		}
	}
}

// A receiver checks what a webhook is sent as package webhook does.
func TestTheSignatureHoldsForAReceiver(t *testing.T) {
	for name, want := range map[string]int{"0123456789abcdef": http.StatusAccepted, "another key of 16": http.StatusUnauthorized} {
		receiver, err := webhook.New(webhook.Options{
			Hooks:   []webhook.Hook{{Name: "h", Provider: webhook.Generic, Repo: "https://forge.example/ops/fleet", Branch: "main", Secrets: []string{file(t, "0123456789abcdef")}}},
			Trigger: func() error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		s := serveHandler(t, receiver)
		body := `{"ref": "refs/heads/main", "text": "${text}", "repository": {"clone_url": "https://forge.example/ops/fleet"}}`
		err = newPlace(t, notify.PlaceOptions{Provider: notify.Webhook, URL: s + "/hooks/h", Secret: file(t, name), Body: body}).Send(t.Context(), blocked)
		if accepted := err == nil; accepted != (want == http.StatusAccepted) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
