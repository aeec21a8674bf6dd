package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

const (
	maxAnswer  = 64 << 10 // bytes
	slackField = 2900     // characters of a section; Slack takes 3,000
	slackTitle = 140      // of a header; Slack takes 150
)

// post sends a message as JSON to the address of a chat or webhook.
func (p *Place) post(ctx context.Context, message func() ([]byte, error), key string) error {
	body, err := message()
	if err != nil {
		return &outbound.Error{Err: err, Final: true}
	}
	answer, err := p.client.Post(ctx, outbound.Post{To: p.address(), Body: body, Key: key}, maxAnswer)
	if err == nil && p.o.Provider == Teams && strings.Contains(string(answer), "delivery failed") {
		return &outbound.Error{Err: fmt.Errorf("it answers: %s", outbound.Line(string(answer), 200))} // with status 200
	}
	return err
}

// everyField is the template of a webhook without one.
const everyField = `{"event": "${event}", "title": "${title}", "text": "${text}", "details": "${details}", ` +
	`"state": "${state}", "commit": "${commit}", "branch": "${branch}", "author": "${author}", ` +
	`"subject": "${subject}", "where": "${where}", "command": "${command}", "by": "${by}", "time": "${time}", ` +
	`"peels": ${peels}, "applied": ${applied}, "failed": ${failed}, "offline": ${offline}, "seconds": ${seconds}}`

// fill returns a template with the values of an event.
func fill(template string, e Event) ([]byte, error) {
	if template == "" {
		template = everyField
	}
	values := map[string]string{
		"event":   string(e.Kind),
		"title":   e.Title(),
		"text":    e.Text,
		"details": strings.Join(e.Details, "\n"),
		"state":   string(e.State),
		"commit":  string(e.Revision.Commit),
		"short":   fmt.Sprintf("%.7s", e.Revision.Commit),
		"branch":  e.Branch,
		"author":  e.Revision.Author,
		"subject": e.Revision.Subject,
		"where":   e.Where,
		"command": e.Command,
		"by":      e.By,
		"time":    e.Time.UTC().Format(time.RFC3339),
		"peels":   strconv.Itoa(e.Counts.Peels),
		"applied": strconv.Itoa(e.Counts.Applied),
		"failed":  strconv.Itoa(e.Counts.Failed),
		"offline": strconv.Itoa(e.Counts.Offline),
		"seconds": strconv.FormatFloat(e.Took.Seconds(), 'f', 3, 64),
		"$":       "$",
	}
	unknown := ""
	out := []byte(os.Expand(template, func(name string) string {
		value, ok := values[name]
		if !ok {
			unknown = name
		}
		quoted, _ := json.Marshal(value) // a string always can
		return string(quoted[1 : len(quoted)-1])
	}))
	switch {
	case unknown != "":
		return nil, fmt.Errorf("its body has the unknown variable ${%s}", outbound.Line(unknown, 40))
	case !json.Valid(out):
		return nil, fmt.Errorf("its body is not JSON once it is filled in: %s", outbound.Line(string(out), 200))
	}
	return out, nil
}

// slackEscape escapes links and mentions.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackMessage returns the body of a request to an incoming webhook of Slack. Source: "Sending messages using incoming
// webhooks" and "Block Kit, reference". All blocks are plain text, so that no text of an event is formatting.
func slackMessage(m Text) ([]byte, error) {
	type text struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Emoji bool   `json:"emoji"`
	}
	type block struct {
		Type string `json:"type"`
		Text text   `json:"text"`
	}
	return json.Marshal(struct {
		Text   string  `json:"text"` // of the notification on a screen
		Blocks []block `json:"blocks"`
	}{
		slackEscape.Replace(outbound.Line(m.Title+": "+m.Summary, maxText)),
		[]block{
			{"header", text{Type: "plain_text", Text: outbound.Line(m.Title, slackTitle)}},
			{"section", text{Type: "plain_text", Text: cutRunes(strings.Join(m.Lines, "\n"), slackField)}},
		},
	})
}

const teamsText = 16_000 // bytes; Teams takes messages of 28 KB

// teamsMessage returns the body of a request to a workflow of Teams, or to an incoming webhook of the older kind.
// Source: "Create incoming webhooks with workflows", "Adaptive Cards schema 1.4". It uses text runs, as a text block
// would interpret Markdown.
func teamsMessage(m Text) ([]byte, error) {
	type run struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		Weight string `json:"weight,omitempty"`
	}
	type line struct {
		Type    string `json:"type"`
		Inlines []run  `json:"inlines"`
	}
	body := []line{{"RichTextBlock", []run{{"TextRun", m.Title, "bolder"}}}}
	left := teamsText
	for _, l := range m.Lines {
		if left -= len(l); left < 0 {
			break
		}
		body = append(body, line{"RichTextBlock", []run{{Type: "TextRun", Text: l}}})
	}
	card := map[string]any{
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
		"type":    "AdaptiveCard",
		"version": "1.4",
		"body":    body,
	}
	return json.Marshal(map[string]any{"type": "message", "attachments": []any{
		map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card},
	}})
}

func cutRunes(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
