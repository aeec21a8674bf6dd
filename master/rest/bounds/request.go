package bounds

import (
	"crypto/rand"
	"net/http"
	"strings"
)

// Bearer returns the token in the header Authorization; given is false without such a header.
func Bearer(r *http.Request) (text string, given bool) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", false
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return text, true
}

// RequestID returns the ID in the header X-Request-Id, or a random one if that is absent or not valid.
func RequestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	plain := func(b rune) bool {
		return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.'
	}
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(b rune) bool { return !plain(b) }) {
		return rand.Text()
	}
	return id
}
