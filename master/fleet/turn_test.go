package fleet

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestAPeelIsSilentOnlyAfterItsTimeOrInAnotherTurn makes random changes. A peel that was not silent must not be silent in
// the same turn before [Presence.Until].
func TestAPeelIsSilentOnlyAfterItsTimeOrInAnotherTurn(t *testing.T) {
	t.Run("heartbeats", func(t *testing.T) { silence(t, false) })
	t.Run("connections", func(t *testing.T) { silence(t, true) })
}

// silence follows a feed that does or does not hear of connections.
func silence(t *testing.T, connections bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const n, changes = 6, 20_000
		type known struct {
			turn  uint64
			until time.Time
		}
		f := New(nil, slog.New(slog.DiscardHandler))
		f.pretend(30_000) // so many that a feed of heartbeats listens for longer
		if connections {
			f.FollowsConnections()
		}
		random := rand.New(rand.NewPCG(3, 4))
		last, kept, silent := map[int]known{}, 0, 0
		for step := range changes {
			i := random.IntN(n)
			id := target.PeelID(fmt.Sprint("web-", i))
			w := id.Wire()
			act := random.IntN(14)
			switch act {
			case 0:
				f.Disconnected(w)
			case 1, 2:
				f.Connected(w)
			case 3:
				time.Sleep(time.Duration(random.IntN(200)) * time.Second)
			case 4:
				f.put(w, wire.Facts{Peel: target.PeelID(fmt.Sprint("WEB-", i))})
			case 5:
				f.put(w, wire.Facts{Peel: id})
			case 6:
				f.remove(w)
			case 7:
				f.forgetOffline()
			case 8:
				f.setSince(time.Now())
			default:
				beat := wire.Beat{Instance: "AAAA", Every: time.Duration(30+random.IntN(60)) * time.Second}
				f.onHeartbeat(&nats.Msg{Subject: wire.Heartbeat(w), Data: beat.Encode()}, time.Now())
			}
			f.Presences(func(turn uint64, of func(target.PeelID, string) Presence) {
				for i := range n {
					id := target.PeelID(fmt.Sprint("web-", i))
					p := of(id, id.Wire())
					switch before, ok := last[i]; {
					case p.Silent && ok && before.turn == turn && time.Now().Before(before.until):
						t.Fatalf("change %d, act %d: %s is silent before %s", step, act, id, before.until)
					case p.Silent:
						silent++
						delete(last, i)
					case !ok || before.turn != turn || !time.Now().Before(before.until):
						last[i] = known{turn, p.Until}
					default:
						kept++
					}
				}
			})
		}
		if kept < changes || silent < changes {
			t.Errorf("known without looking: %d, silent: %d", kept, silent)
		}
	})
}
