package grants

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// roleTag begins the tag of a credential that names its role.
const roleTag = "role:"

// A Caller is the sender of a request to masters, as the server of the bus states it.
type Caller struct {
	User string
	Role Role   // "" if the server does not state it, as for masters
	From string // address of the host; "" if the server does not state it
	Via  Via    // what the request came by, if a master passes it on; "" for requests of a credential of the bus
}

// A Via says by which service of a master a request came that the master passes on.
type Via string

// The services that pass requests on.
const (
	ViaConsole Via = "console"
	ViaREST    Via = "rest"
	ViaMCP     Via = "mcp"
)

// viaTag begins the tag that names a [Via]. No credential has it.
const viaTag = "via:"

var ways = []Via{ViaConsole, ViaREST, ViaMCP}

// requestInfo is a header of messages that pass from one account to another. The server replaces any that the sender
// wrote.
const requestInfo = "Nats-Request-Info"

// connectionInfo has the used fields of [requestInfo].
type connectionInfo struct {
	Host string   `json:"host,omitempty"`
	Tags []string `json:"tags,omitempty"`
}

// Header returns the header by which [CallerOf] finds role, host and way of c. A master sends it with a request that it
// passes on for a caller of its own; from any other account the server replaces it.
func (c Caller) Header() nats.Header {
	var tags []string
	if c.Role != "" {
		tags = append(tags, roleTag+string(c.Role))
	}
	if c.Via != "" {
		tags = append(tags, viaTag+string(c.Via))
	}
	if c.From == "" && tags == nil {
		return nil
	}
	data, err := json.Marshal(connectionInfo{Host: c.From, Tags: tags})
	if err != nil {
		return nil
	}
	return nats.Header{requestInfo: {string(data)}}
}

// CallerOf reads the caller from a request to masters. The name is the last token of its subject, on which only the
// owner of the name may publish. Role and host come from the server's description of the connection.
func CallerOf(subject string, header nats.Header) Caller {
	c := Caller{User: wire.Sender(subject)}
	var info connectionInfo
	if err := json.Unmarshal([]byte(header.Get(requestInfo)), &info); err != nil {
		return c
	}
	c.From = info.Host
	for _, tag := range info.Tags {
		if name, ok := strings.CutPrefix(tag, roleTag); ok && slices.Contains(roles, Role(name)) {
			c.Role = Role(name)
		}
		if name, ok := strings.CutPrefix(tag, viaTag); ok && slices.Contains(ways, Via(name)) {
			c.Via = Via(name)
		}
	}
	return c
}

// PeelOf returns the wire ID of the peel that a JWT was signed for. ok is false if the JWT has another role or cannot
// be read. The signature is not checked: pass a JWT that the server has accepted.
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
	if json.Unmarshal(data, &claims) != nil || CheckName(RolePeel, claims.Name) != nil {
		return "", false
	}
	return claims.Name, slices.Contains(claims.NATS.Tags, roleTag+string(RolePeel))
}
