package peel_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
)

// lines gets what is logged, as far as there is room.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// The server says no over a socket only: it cuts a connection within the process first. So this is in real time.
func TestAPeelThatIsRefusedFromTheStartLogsItAtItsSecondAttempt(t *testing.T) {
	t.Parallel()
	bus := natstest.Listen(t)
	elsewhere, err := keystore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	sign := func() (string, error) { return elsewhere.Issue(grants.RolePeel, id.Wire(), key.Public(), 0) }
	log := make(lines, 100)
	p, err := peel.New(peel.Options{
		ID: id, DataDir: t.TempDir(), URL: bus.URL(), CA: bus.CA(), Log: slog.New(slog.NewTextHandler(log, nil)),
		Connect: []nats.Option{nats.UserJWT(sign, key.Sign)},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	for patience := time.After(time.Minute); ; {
		select {
		case line := <-log:
			if strings.Contains(line, "level=WARN msg=bus ") && strings.Contains(strings.ToLower(line), "authorization violation") {
				return
			}
		case <-patience:
			t.Fatal("nothing is said")
		}
	}
}
