package auth

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// roleTag begins the tag of a credential that names its role.
const roleTag = "role:"

// An Asker is who sent a request to masters, as the bus vouches for it.
type Asker struct {
	User string
	Role Role   // "" where the server does not tell: for masters themselves
	From string // address of the host; "" where the server does not tell
}

// requestInfo is the header that the server puts in place of any that the sender may have written, on what passes from
// one account to another.
const requestInfo = "Nats-Request-Info"

// connectionInfo is what [requestInfo] holds, as far as it is used here.
type connectionInfo struct {
	Host string   `json:"host,omitempty"`
	Tags []string `json:"tags,omitempty"`
}

// Header returns the header by which [AskerOf] finds the host of a. A master sends it with a request that it passes on for
// a caller of its own; from any other account the server replaces it.
func (a Asker) Header() nats.Header {
	if a.From == "" {
		return nil
	}
	data, err := json.Marshal(connectionInfo{Host: a.From})
	if err != nil {
		return nil
	}
	return nats.Header{requestInfo: {string(data)}}
}

// AskerOf reads from a request that came to masters who sent it: the name is the last token of its subject, which the
// bus lets nobody else use; role and host are what the server says of the connection.
func AskerOf(subject string, header nats.Header) Asker {
	a := Asker{User: wire.Sender(subject)}
	var info connectionInfo
	if err := json.Unmarshal([]byte(header.Get(requestInfo)), &info); err != nil {
		return a
	}
	a.From = info.Host
	for _, tag := range info.Tags {
		if name, ok := strings.CutPrefix(tag, roleTag); ok && slices.Contains(roles, Role(name)) {
			a.Role = Role(name)
		}
	}
	return a
}
