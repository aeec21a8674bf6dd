package api

import (
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"
)

func TestWhoReadsSlowlyHoldsABoundedBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog()
		defer b.end()
		const each = 1 << 20
		data := make([]byte, each)
		say := func(n int) {
			for i := range n {
				b.arrived <- &nats.Msg{Data: data, Subject: string(rune('a' + i))}
				synctest.Wait()
			}
		}
		read := func() (subjects string) {
			for {
				select {
				case m := <-b.next:
					subjects += m.Subject
				default:
					return subjects
				}
				synctest.Wait()
			}
		}
		say(60)
		b.arrived <- &nats.Msg{Subject: "small"} // which still fits
		synctest.Wait()
		first := read()
		if held := len(first) - len("small"); held < 20 || held*each > backlogBytes || first[:3] != "abc" || first[held:] != "small" {
			t.Errorf("held %q", first)
		}
		say(2)
		if again := read(); again != "ab" {
			t.Errorf("with room again it held %q", again)
		}
	})
}
