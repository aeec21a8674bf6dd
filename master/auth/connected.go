package auth

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// PeelOf returns the wire ID of the peel that a JWT was signed for. ok is false if it is of another role or cannot be
// read. The signature is not checked: pass a JWT that the server has accepted.
func PeelOf(token string) (wireID string, ok bool) {
	_, rest, _ := strings.Cut(token, ".")
	body, _, _ := strings.Cut(rest, ".")
	data, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return "", false
	}
	var claims struct {
		Name string `json:"name"`
		NATS struct {
			Tags []string `json:"tags"`
		} `json:"nats"`
	}
	if json.Unmarshal(data, &claims) != nil || checkName(RolePeel, claims.Name) != nil {
		return "", false
	}
	return claims.Name, slices.Contains(claims.NATS.Tags, roleTag+string(RolePeel))
}
