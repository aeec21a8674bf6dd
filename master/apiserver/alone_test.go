package apiserver_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestTargetsAreResolvedWithoutAMaster(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", target.Facts{"os": "debian"}, nil)
		s.peel("web.02", target.Facts{"os": "ubuntu"}, nil)
		s.peel("db-01", target.Facts{"os": "debian"}, nil)
		s.peel("web-01", target.Facts{"os": "alpine"}, nil) // the newest facts are those that count
		alice := s.client(grants.RoleOperator, "alice")
		for expr, want := range map[string][]target.PeelID{
			"*":              {"db-01", "web-01", "web.02"},
			"G@os:debian":    {"db-01"},
			"web*":           {"web-01", "web.02"},
			"L@web.02,other": {"web.02"},
			"none":           nil,
		} {
			got, err := alice.ResolveAlone(t.Context(), expr)
			if err != nil || !slices.Equal(got.Peels, want) || got.Total != len(want) {
				t.Errorf("%s: %+v, %v", expr, got, err)
			}
			if expr == "L@web.02,other" && !slices.Equal(got.Unknown, []target.PeelID{"other"}) {
				t.Errorf("not known: %v", got.Unknown)
			}
		}
		for _, expr := range []string{"(", "N@front", "I@role:web"} {
			_, err := alice.ResolveAlone(t.Context(), expr)
			wantCode(t, err, api.CodeInvalid)
		}
		_, err := s.client(grants.RoleAuditor, "eve").ResolveAlone(t.Context(), "*")
		wantCode(t, err, api.CodeDenied)
	})
}

// The server gives so many in one answer, and a peel may write headers that look like the server's.
func TestAllFactsAreReadHoweverManyAndWhateverTheirHeaders(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		const peels = 600
		nc := s.bus.Conn(t, grants.RoleMaster, "writer")
		for i := range peels {
			id := target.PeelID(fmt.Sprintf("p-%03d", i))
			data, err := canon.Marshal(wire.Facts{Peel: id, Facts: target.Facts{"i": int64(i)}, V: wire.Version})
			if err != nil {
				t.Fatal(err)
			}
			h := nats.Header{"Status": {"204"}, "Nats-Num-Pending": {"0"}, "Nats-Subject": {wire.Fact("other")}, "Nats-Sequence": {"1"}}
			if err := nc.PublishMsg(&nats.Msg{Subject: wire.Fact(id.Wire()), Header: h, Data: data}); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until all is stored
		got, err := s.client(grants.RoleOperator, "alice").ResolveAlone(t.Context(), "p-* and not G@i:7")
		if err != nil || len(got.Peels) != peels-1 {
			t.Errorf("%d peels, %v", len(got.Peels), err)
		}
	})
}

// BenchmarkResolveAlone is what a person waits for without a master, at 10,000 peels.
func BenchmarkResolveAlone(b *testing.B) {
	bus := natstest.Listen(b)
	nc := bus.Conn(b, grants.RoleMaster, "writer")
	for i := range 10_000 {
		id := target.PeelID(fmt.Sprintf("p-%05d", i))
		data, err := canon.Marshal(wire.Facts{Peel: id, Facts: target.Facts{"os": "debian", "i": int64(i), "kernel": "linux"}, V: wire.Version})
		if err == nil {
			err = nc.Publish(wire.Fact(id.Wire()), data)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		b.Fatal(err)
	}
	creds, err := bus.Keys.Creds(grants.RoleOperator, "alice", 0)
	if err != nil {
		b.Fatal(err)
	}
	c, err := api.Connect(api.ClientOptions{URL: bus.URL(), Creds: creds, CA: bus.CA()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		if got, err := c.ResolveAlone(b.Context(), "G@os:debian"); err != nil || len(got.Peels) != 10_000 {
			b.Fatal(len(got.Peels), err)
		}
	}
}
