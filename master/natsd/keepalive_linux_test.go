package natsd_test

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// Else a host that lost its network stays connected until the server's own PING has failed, up to six minutes.
func TestTheKernelProbesSilentConnections(t *testing.T) {
	b := natstest.Listen(t)
	nc, err := nats.Connect(b.URL(), b.Options(grants.RolePeel, "web-01")...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	u, err := url.Parse(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	const established, noTimer = "01", "00" // an idle connection has a timer for the next probe
	connections := 0
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) || f[3] != established {
			continue
		}
		connections++
		if timer, _, _ := strings.Cut(f[5], ":"); timer == noTimer {
			t.Errorf("a connection is not probed: %s", line)
		}
	}
	if connections == 0 {
		t.Error("the server has no connection")
	}
}
