package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A response is what is read of the JSON of a server.
type response struct {
	text, model, finish            string
	promptTokens, completionTokens int64
}

// reply is the JSON of a server, as far as it is read.
type reply struct {
	Model   string `json:"model"`
	Choices []struct {
		Message struct {
			Content *string `json:"content"`
			Refusal string  `json:"refusal"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
	Error any `json:"error"`
}

const (
	maxName = 200     // bytes kept of the name of a model, and of the reason why it finished
	maxUsed = 1 << 40 // tokens; more cannot be right
)

// decode reads the answer of a server.
func decode(data []byte) (*response, error) {
	var r reply
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("the server's answer is not the JSON of a chat completion: %w", err)
	}
	if r.Error != nil {
		return nil, fmt.Errorf("the server reports: %.500s", problemIn(data))
	}
	if len(r.Choices) == 0 {
		return nil, errors.New("the server's answer is not the JSON of a chat completion: it has no choices")
	}
	first := r.Choices[0]
	out := &response{
		model:            short(r.Model),
		finish:           short(first.FinishReason),
		promptTokens:     r.Usage.Prompt,
		completionTokens: r.Usage.Completion,
	}
	if out.promptTokens < 0 || out.completionTokens < 0 || max(out.promptTokens, out.completionTokens) > maxUsed {
		return nil, fmt.Errorf("the server's answer cannot be right: it counts %d and %d tokens", r.Usage.Prompt,
			r.Usage.Completion)
	}
	switch {
	case first.Message.Refusal != "":
		return nil, fmt.Errorf("the model refuses: %.500q", first.Message.Refusal)
	case first.Message.Content == nil || *first.Message.Content == "":
		return nil, fmt.Errorf("the model answers without text (finish reason %q)", out.finish)
	}
	out.text = *first.Message.Content
	return out, nil
}

func short(s string) string {
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "")
	}
	return s
}

// problemIn returns the message of an error that a server reports, "" if there is none. Servers write it as {"error":
// {"message": …}}, {"error": …}, {"message": …} or {"detail": …}.
func problemIn(data []byte) string {
	var m struct{ Error, Message, Detail any }
	if json.Unmarshal(data, &m) != nil {
		return ""
	}
	for _, v := range []any{m.Error, m.Message, m.Detail} {
		if inner, ok := v.(map[string]any); ok {
			if v, ok = inner["message"]; !ok {
				v = inner
			}
		}
		if v != nil {
			return fmt.Sprint(v)
		}
	}
	return ""
}

// decodeJSON decodes the JSON in the text of an answer into the types of results. Some models put it between lines of
// ```.
func decodeJSON(text string) (any, error) {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		inner, _ = strings.CutSuffix(inner, "```")
		_, text, _ = strings.Cut(inner, "\n")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows it")
	}
	return plain(v, canon.MaxDepth/2)
}

// plain returns a decoded value with int64 and float64 for its numbers, nested depth deep at most.
func plain(v any, depth int) (_ any, err error) {
	if depth < 0 {
		return nil, fmt.Errorf("it is nested deeper than %d", canon.MaxDepth/2)
	}
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, nil
		}
		return v.Float64()
	case []any:
		for i := range v {
			if v[i], err = plain(v[i], depth-1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range v {
			if v[name], err = plain(v[name], depth-1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
