package master

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// FuzzConnections has events and a page of the list of connections, as the server sends them. The connection to the server is
// closed, so connections in excess are not ended.
func FuzzConnections(f *testing.F) {
	nc := natstest.Listen(f).Conn(f, grants.RoleMaster, "m1")
	nc.Close()
	token := "a." + base64.RawURLEncoding.EncodeToString([]byte(`{"name":"web","nats":{"tags":["role:peel"]}}`)) + ".b"
	for id := range maxConnections + 2 {
		f.Add("CONNECT", fmt.Appendf(nil, `{"client":{"id":%d,"jwt":%q}}`, id, token), fmt.Appendf(nil, `{"data":{"connections":[{"cid":7,"jwt":%q},{"cid":8,"jwt":%q}]}}`, token, token))
	}
	f.Add("DISCONNECT", []byte(`{"client":{"id":7}}`), []byte(`{"data":{"connections":[{"cid":-1}]}}`))
	f.Add("SERVER.CONNS", []byte(`{}`), []byte(`{"data":null}`))
	f.Fuzz(func(t *testing.T, kind string, event, page []byte) {
		p := presence{nc: nc, fleet: fleet.New(nc, slog.New(slog.DiscardHandler)), peels: map[uint64]string{}, connections: map[string][]uint64{}}
		_, _ = p.onPage(page)
		_ = p.onEvent(kind, event)
		all := 0
		for peel, connections := range p.connections {
			if len(connections) == 0 || len(connections) > maxConnections {
				t.Errorf("%q has %d connections", peel, len(connections))
			}
			for _, c := range connections {
				if p.peels[c] != peel {
					t.Errorf("connection %d of %q is of %q", c, peel, p.peels[c])
				}
			}
			all += len(connections)
		}
		if all != len(p.peels) {
			t.Errorf("%d connections of peels, %d of all", all, len(p.peels))
		}
	})
}
