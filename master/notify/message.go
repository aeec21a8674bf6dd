package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// An AlertPhase says what has happened to the alert of a message.
type AlertPhase string

// The phases.
const (
	AlertBegan AlertPhase = "began"
	AlertGrew  AlertPhase = "grew"  // to twice the peels or more, or by a kind of trouble
	AlertLasts AlertPhase = "lasts" // for Alertmanager, which ends alerts that are not sent again
	AlertEnded AlertPhase = "ended"
	AlertTest  AlertPhase = "test"
)

// An AlertMessage is about one alert.
type AlertMessage struct {
	ID       string // of the alert: RULE/SUBJECT
	Event    string // identifies the message; it is the same in each attempt to send it
	Phase    AlertPhase
	Rule     string
	Subject  string // the entry; for whole peels and revisions the trouble
	Troubles []verdict.Kind
	Peels    int             // 0 for revisions
	Names    []target.PeelID // the first of them
	Text     string          // the reason or error of one of them
	Output   Output          // of the newest failed run of one of them, if it is known
	Began    time.Time
	Ended    time.Time // zero while it lasts
	Time     time.Time // of the message
}

// maxAlertText bounds the reason in a message, in bytes.
const maxAlertText = 600

// what returns the troubles and the number of peels: "failed, missed on 3 peels".
func (m AlertMessage) what() string {
	words := make([]string, len(m.Troubles))
	for i, t := range m.Troubles {
		words[i] = strings.ReplaceAll(string(t), "_", " ")
	}
	text := strings.Join(words, ", ")
	switch {
	case m.Peels == 1 && len(m.Names) == 1:
		text += " on " + string(m.Names[0])
	case m.Peels == 1:
		text += " on 1 peel"
	case m.Peels > 1:
		text += fmt.Sprintf(" on %d peels", m.Peels)
	}
	return outbound.Line(strings.TrimSpace(text), maxAlertText)
}

// Title returns the message in one line.
func (m AlertMessage) Title() string {
	subject := m.Subject
	for _, t := range m.Troubles {
		switch {
		case string(t) != subject: // it is of an entry
		case t == verdict.BreakGlass:
			subject = "access"
		default: // of whole peels or revisions
			subject = map[bool]string{true: "revision", false: "schedule"}[m.Peels == 0]
		}
	}
	switch m.Phase {
	case AlertTest:
		return "test message of zester: alerts reach this receiver"
	case AlertEnded:
		return fmt.Sprintf("ended: %s %s", subject, m.what())
	case AlertGrew:
		return fmt.Sprintf("more: %s %s", subject, m.what())
	}
	return subject + " " + m.what()
}

// lines returns the text below the title.
func (m AlertMessage) lines() (lines []string) {
	if m.Phase == AlertTest {
		return []string{"Nothing is wrong; a person asked for this message with zester alert test."}
	}
	if m.Text != "" {
		lines = append(lines, outbound.Line(m.Text, maxAlertText))
	}
	if names := m.names(); names != "" {
		lines = append(lines, "peels: "+names)
	}
	span := "since " + alertTimestamp(m.Began)
	if !m.Ended.IsZero() {
		span = fmt.Sprintf("from %s to %s (%s)", alertTimestamp(m.Began), alertTimestamp(m.Ended),
			m.Ended.Sub(m.Began).Round(time.Second))
	}
	lines = append(lines, span)
	if next := m.Command(); next != "" {
		lines = append(lines, "next: "+next)
	}
	lines = append(lines, "alert: "+m.ID)
	return append(lines, m.outputLines()...) // last, because receivers cut long texts
}

// names returns the first peels: "db-1, db-2 and 7 more".
func (m AlertMessage) names() string {
	names := make([]string, len(m.Names))
	for i, n := range m.Names {
		names[i] = string(n)
	}
	text := strings.Join(names, ", ")
	if more := m.Peels - len(m.Names); more > 0 && text != "" {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func alertTimestamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// textOf makes one text of messages, at least one.
func textOf(all []AlertMessage) Text {
	first := all[0]
	if len(all) == 1 {
		return Text{Title: first.Title(), Summary: first.Text, Lines: first.lines(), Time: first.Time, ID: first.Event}
	}
	began, ended, events := 0, 0, sha256.New()
	t := Text{Time: first.Time}
	for _, m := range all {
		if m.Phase == AlertEnded {
			ended++
		} else {
			began++
		}
		t.Lines = append(t.Lines, m.Title())
		events.Write([]byte(m.Event))
	}
	t.Title = fmt.Sprintf("%d alerts, %d ended", began, ended)
	t.Summary, t.ID = strings.Join(t.Lines, "; "), hex.EncodeToString(events.Sum(nil))[:32]
	if shown := maxLines - 2; len(t.Lines) > shown {
		t.Lines = append(t.Lines[:shown], fmt.Sprintf("and %d more", len(t.Lines)-shown))
	}
	t.Lines = append(t.Lines, "next: zester alert list")
	return t
}

// page sends an event to PagerDuty. Source: "Events API v2, Send an event".
func (r *Receiver) page(ctx context.Context, m AlertMessage) error {
	key, err := outbound.ReadGuardedSecret(r.o.Key)
	if err != nil {
		return err
	}
	type payload struct {
		Summary   string         `json:"summary"`
		Source    string         `json:"source"`
		Severity  string         `json:"severity"`
		Timestamp string         `json:"timestamp"`
		Component string         `json:"component"`
		Group     string         `json:"group"`
		Details   map[string]any `json:"custom_details"`
	}
	event := struct {
		RoutingKey string   `json:"routing_key"`
		Action     string   `json:"event_action"`
		DedupKey   string   `json:"dedup_key"`
		Client     string   `json:"client"`
		Payload    *payload `json:"payload,omitempty"`
	}{key, "trigger", "zester-" + short(m.ID), "zester", nil}
	if m.Phase == AlertEnded {
		event.Action = "resolve"
	} else {
		event.Payload = &payload{
			Summary:   outbound.Line(m.Title(), 1000),
			Source:    "zester",
			Severity:  "error",
			Timestamp: alertTimestamp(m.Time),
			Component: m.Subject,
			Group:     m.Rule,
			Details: map[string]any{
				"alert":       m.ID,
				"peels":       m.Peels,
				"first_peels": append([]target.PeelID{}, m.Names...), // a list also if it is empty
				"text":        outbound.Line(m.Text, maxAlertText),
				"output":      strings.Join(m.Output.Lines, "\n"),
				"command":     m.Command(),
				"since":       alertTimestamp(m.Began),
			},
		}
	}
	if m.Phase == AlertTest {
		event.Payload.Severity = "info"
	}
	return r.post(ctx, "", "", event, key)
}

// plain returns a text for Alertmanager without the sign that begins a link or a call of everybody in a chat: templates
// pass it on as it is.
func plain(text string) string { return strings.ReplaceAll(text, "<", "‹") }

// lastsFor is how long Alertmanager keeps an alert that is not sent again. Five attempts fit in.
const lastsFor = 5 * time.Minute

// manage sends alerts to Alertmanager. Source: its OpenAPI v2, postAlerts.
func (r *Receiver) manage(ctx context.Context, all []AlertMessage) error {
	type alert struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		StartsAt    string            `json:"startsAt"`
		EndsAt      string            `json:"endsAt"`
	}
	alerts := make([]alert, len(all))
	for i, m := range all {
		a := alert{
			Labels: map[string]string{"alertname": m.Rule, "subject": m.Subject, "service": "zester"},
			Annotations: map[string]string{
				"summary": plain(m.Title()), "description": plain(strings.Join(m.lines(), "\n")),
			},
			StartsAt: alertTimestamp(m.Began), EndsAt: alertTimestamp(m.Time.Add(lastsFor)),
		}
		switch {
		case m.Phase == AlertTest:
			a.StartsAt, a.EndsAt = alertTimestamp(m.Time), alertTimestamp(m.Time.Add(time.Minute))
		case !m.Ended.IsZero():
			a.EndsAt = alertTimestamp(m.Ended)
		}
		alerts[i] = a
	}
	return r.post(ctx, "/api/v2/alerts", "", alerts)
}

// event sends a message to a webhook. Source: "CloudEvents 1.0.2, JSON event format, structured mode".
func (r *Receiver) event(ctx context.Context, m AlertMessage) error {
	type data struct {
		Rule     string          `json:"rule"`
		Subject  string          `json:"subject"`
		Troubles []verdict.Kind  `json:"troubles,omitempty"`
		Peels    int             `json:"peels"`
		Names    []target.PeelID `json:"first_peels,omitempty"`
		Title    string          `json:"title"`
		Text     string          `json:"text,omitempty"`
		Output   string          `json:"output,omitempty"`
		Command  string          `json:"command,omitempty"`
		Began    time.Time       `json:"began,omitzero"`
		Ended    time.Time       `json:"ended,omitzero"`
	}
	return r.post(ctx, "", "application/cloudevents+json; charset=utf-8", struct {
		Version string `json:"specversion"`
		ID      string `json:"id"`
		Source  string `json:"source"`
		Type    string `json:"type"`
		Time    string `json:"time"`
		Subject string `json:"subject"`
		Content string `json:"datacontenttype"`
		Data    data   `json:"data"`
	}{
		"1.0", m.Event, "/zester/alerts", "zester.alert." + string(m.Phase), alertTimestamp(m.Time), m.ID,
		"application/json",
		data{
			m.Rule, m.Subject, m.Troubles, m.Peels, m.Names, m.Title(), outbound.Line(m.Text, maxAlertText),
			strings.Join(m.Output.Lines, "\n"), m.Command(), m.Began.UTC(), m.Ended.UTC(),
		},
	})
}

// short returns a fixed-length name for an ID of any length.
func short(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}
