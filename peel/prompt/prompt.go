// Package prompt is the code of the function prompt.run, which asks a model: a server that speaks the JSON of OpenAI's
// chat completions, without streaming. Call [New] with the configuration, then [Asker.Run] for each call.
//
// Guarantees:
//   - The model gets text and returns text. It has no tools and no shell, and nothing that it returns is run.
//   - Results of the functions in the argument context are JSON in messages of their own, which are marked as data.
//     Secrets of the settings and of the arguments are masked in them, and each is cut to 64 KiB.
//   - The key is in no result and no error, also where a server repeats it whole, in parts of 8 bytes or more, or
//     escaped.
//   - Nothing larger than 1 MiB is read from a server, and no redirect is followed.
//   - Limits for an hour are on the disk before a request is sent, so a restart does not reset them.
//
// Known gaps: a key that a server repeats in another encoding, such as base64, is not found. Whoever moves the clock of
// the host forward by an hour resets the limits.
package prompt

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/mask"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Sizes in bytes.
const (
	maxPrompt = 256 << 10 // prompt and opts.system, each
	maxAnswer = 256 << 10 // text that is kept of an answer
)

// Options are the options of an [Asker]. All are required.
type Options struct {
	Config Config
	File   string // keeps what the last hour has used
	// Read runs a read-only function of the peel. Its result has no secrets of the settings, and none of those given.
	Read func(ctx context.Context, function string, args map[string]any, secrets *mask.Mask) wire.Result
}

// An Asker asks a model. It is safe for concurrent use.
type Asker struct {
	c      Config
	read   func(ctx context.Context, function string, args map[string]any, secrets *mask.Mask) wire.Result
	limits *limits
	client *http.Client
}

// New checks the configuration. It reads the certificates, and not the key, which is read for each call.
func New(o Options) (*Asker, error) {
	if err := o.Config.Check(); err != nil {
		return nil, err
	}
	client, err := o.Config.client()
	if err != nil {
		return nil, err
	}
	return &Asker{
		c:      o.Config,
		read:   o.Read,
		client: client,
		limits: &limits{file: o.File, requests: o.Config.MaxRequests, cost: o.Config.MaxCost},
	}, nil
}

// An Answer is the data of a result. People see its keys in their order, and so the answer first.
type Answer struct {
	Answer           any     `json:"answer"`              // a text, or the value that opts.response_schema asks for
	Truncated        bool    `json:"truncated,omitempty"` // the text had more than 256 KiB
	Model            string  `json:"model"`               // as the server names it, else as it was asked for
	PromptTokens     int64   `json:"prompt_tokens,omitempty"`
	CompletionTokens int64   `json:"completion_tokens,omitempty"`
	Cost             float64 `json:"cost,omitempty"` // of the last request, if prices are known
	FinishReason     string  `json:"finish_reason"`
	Duration         string  `json:"duration"`
	Requests         int     `json:"requests"`      // that were sent, with those that were repeated
	PromptHash       string  `json:"prompt_sha256"` // of the argument prompt, with its secrets masked
}

// errTimeout is the cause of the end of a call that took too long.
var errTimeout = errors.New("timeout")

// Run is the function prompt.run.
func (a *Asker) Run(ctx context.Context, call module.Call) wire.Result {
	secrets := mask.New(call.Secrets)
	key, err := a.c.key()
	if err != nil {
		return wire.Result{Error: err.Error()}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.c.Timeout, errTimeout)
	defer cancel()
	answer, err := a.ask(ctx, call.Args, secrets, key)
	result := wire.Result{Success: err == nil}
	if err != nil {
		result.Error = err.Error()
	}
	if answer != nil {
		result.Data, err = canon.Normalize(answer)
	}
	if err != nil && answer != nil && result.Data == nil {
		result = wire.Result{Error: fmt.Sprintf("cannot return the answer: %v", err)}
	}
	hidden := secrets.Result(result)
	hidden.Error = key.hide(hidden.Error)
	hidden.Data = cutText(key.hideIn(hidden.Data))
	return hidden
}

// ask checks the arguments, asks the model and checks its answer. An error can come with an answer.
func (a *Asker) ask(ctx context.Context, args map[string]any, secrets *mask.Mask, key secretKey) (*Answer, error) {
	var q catalogue.PromptCall
	if err := strictyaml.Decode(strictyaml.FromValue("arguments", args), &q); err != nil {
		return nil, err
	}
	if err := a.complete(&q); err != nil {
		return nil, err
	}
	var want *catalogue.Schema
	if n := q.Opts.ResponseSchema; n != nil && n.Kind != strictyaml.Null {
		var err error
		if want, err = catalogue.ParseSchema(n); err != nil {
			return nil, err
		}
	}
	failIf, err := regexp.Compile(q.FailIf)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	messages, err := a.messages(ctx, &q, secrets)
	if err != nil {
		return nil, err
	}
	r, sent, err := a.exchange(ctx, &q, messages, want != nil, key)
	if err != nil {
		return nil, err
	}
	shown, _ := secrets.Result(wire.Result{Data: q.Prompt}).Data.(string)
	sum := sha256.Sum256([]byte(shown))
	answer := &Answer{
		Answer:           r.text,
		Model:            cmp.Or(r.model, q.Model),
		PromptTokens:     r.promptTokens,
		CompletionTokens: r.completionTokens,
		Cost:             a.c.cost(r),
		FinishReason:     r.finish,
		Duration:         time.Since(start).Round(time.Millisecond).String(),
		Requests:         sent,
		PromptHash:       hex.EncodeToString(sum[:]),
	}
	switch {
	case r.finish == "length" && want != nil:
		return answer, fmt.Errorf("the answer ended after max_tokens %d, before its JSON was complete",
			*q.Opts.MaxTokens)
	case want != nil:
		value, err := checked(r.text, want)
		if err != nil {
			return answer, err
		}
		answer.Answer = value
	}
	if q.FailIf != "" && failIf.MatchString(r.text) {
		return answer, fmt.Errorf("the answer matches fail_if %q", q.FailIf)
	}
	return answer, nil
}

// checked decodes an answer in JSON and checks it against a schema.
func checked(text string, want *catalogue.Schema) (any, error) {
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("the JSON of the answer has %d bytes, and the most are %d", len(text), maxAnswer)
	}
	value, err := decodeJSON(text)
	if err != nil {
		return nil, fmt.Errorf("the answer is not the JSON that response_schema asks for: %w", err)
	}
	if err := want.Check(value); err != nil {
		return nil, fmt.Errorf("the answer does not match response_schema: %w", err)
	}
	return value, nil
}

// complete fills in the defaults of a call and refuses what the configuration does not allow.
func (a *Asker) complete(q *catalogue.PromptCall) error {
	if q.Model == "" {
		q.Model = a.c.Model
	}
	if allowed := a.c.Allowed(); !slices.Contains(allowed, q.Model) {
		return fmt.Errorf("the model %.100q is not allowed on this peel: its peel.yaml allows %s%s",
			q.Model, strings.Join(allowed, ", "), strictyaml.Suggest(q.Model, allowed))
	}
	if q.Opts.MaxTokens == nil {
		q.Opts.MaxTokens = &a.c.MaxTokens
	}
	if *q.Opts.MaxTokens > a.c.MaxTokens {
		return fmt.Errorf("max_tokens %d is more than this peel allows: %d (max_tokens of prompt in its peel.yaml)",
			*q.Opts.MaxTokens, a.c.MaxTokens)
	}
	if q.Prompt == "" {
		return errors.New("the prompt is empty")
	}
	for _, part := range []struct{ name, text string }{{"prompt", q.Prompt}, {"opts.system", q.Opts.System}} {
		if len(part.text) > maxPrompt {
			return fmt.Errorf(
				"%s has %d bytes, and the most are %d: put what the model is to read into context, "+
					"or ask in several calls",
				part.name, len(part.text), maxPrompt,
			)
		}
	}
	return nil
}

// cutText cuts the text in the data of a result to its first bytes. The text is masked before, because a cut could
// split a secret.
func cutText(data any) any {
	m, _ := data.(map[string]any)
	if text, _ := m["answer"].(string); len(text) > maxAnswer {
		m["answer"], m["truncated"] = strings.ToValidUTF8(text[:maxAnswer], ""), true
	}
	return data
}
