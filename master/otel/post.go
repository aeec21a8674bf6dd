package otel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/private"
)

// maxHeaders bounds the headers of a file.
const maxHeaders = 16

// readHeaders reads a file of headers. Empty lines and lines that begin with # are ignored.
func readHeaders(file string) (http.Header, error) {
	err := private.Check(file)
	var data []byte
	if err == nil {
		data, err = outbound.ReadPrivate(file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the headers in %s: %w", file, err)
	}
	h := http.Header{}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !found || !isToken(name) || value == "" ||
			strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, fmt.Errorf(
				"cannot read the headers in %s:%d: want NAME: VALUE, such as Authorization: Bearer TOKEN", file, n,
			)
		}
		h.Add(name, value)
	}
	if len(h) == 0 || len(h) > maxHeaders {
		return nil, fmt.Errorf("cannot read the headers in %s: it has %d, want 1 to %d", file, len(h), maxHeaders)
	}
	return h, nil
}

// isToken reports whether s can be the name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// post sends spans in one request. It returns how many of them the collector refused and dropped while it took the
// others.
func (e *Exporter) post(ctx context.Context, spans []span) (refused uint64, err error) {
	body, err := json.Marshal(request(spans))
	if err != nil {
		return 0, &outbound.Error{Err: err, Final: true}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	var secrets []string
	if e.o.HeadersFile != "" {
		if req.Header, err = readHeaders(e.o.HeadersFile); err != nil {
			return 0, err
		}
		for _, values := range req.Header {
			secrets = append(secrets, values...)
		}
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(req, maxAnswer, secrets...)
	if err != nil {
		return 0, err
	}
	return readAnswer(answer, len(spans))
}

// readAnswer returns how many of the spans the answer of a collector refuses. An answer that is not one of a collector
// is an error: a proxy or a portal may have given it.
func readAnswer(data []byte, spans int) (refused uint64, err error) {
	var answer struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"` // a number or a text
		} `json:"partialSuccess"`
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return 0, nil // all fields have their default
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return 0, errors.New("its answer is not one of OTLP over HTTP with JSON; its url may be wrong")
	}
	if answer.PartialSuccess.RejectedSpans == "" {
		return 0, nil
	}
	n, err := answer.PartialSuccess.RejectedSpans.Int64()
	if err != nil || n < 0 || n > int64(spans) {
		return 0, fmt.Errorf("its answer refuses %.20q of %d spans", answer.PartialSuccess.RejectedSpans, spans)
	}
	return uint64(n), nil
}
