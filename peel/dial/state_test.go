package dial

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

func TestAPeelThatIsRefusedTriesLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newState("", slog.New(slog.NewTextHandler(&log, nil)))
		attempts := func(why error, during time.Duration) (n int) {
			for began := time.Now(); time.Since(began) < during; n++ {
				s.onError(why)
				time.Sleep(s.pause(n))
			}
			return n
		}
		if n := attempts(nats.ErrAuthorization, 10*time.Second); n < 3 || n > 4 {
			t.Errorf("%d attempts in the first ten seconds, want those after 1, 2 and 4", n)
		}
		if n := attempts(nats.ErrAuthorization, time.Hour); n < 110 || n > 125 {
			t.Errorf("%d attempts in an hour, want two a minute", n)
		}
		if n := strings.Count(log.String(), "authorization violation"); n < 50 || n > 61 || !strings.Contains(log.String(), "left_out=1") {
			t.Errorf("%d lines in an hour, want one a minute:\n%.500s", n, log.String())
		}
		s.onUnreachable(errors.New("connection refused"))
		before := strings.Count(log.String(), "authorization violation")
		s.onError(nats.ErrAuthorization)
		if n := strings.Count(log.String(), "authorization violation"); n != before+1 {
			t.Error("after an outage it is not said that the bus refuses still")
		}
		s.onConnected()
		if n := attempts(nats.ErrAuthExpired, 10*time.Second); n < 3 {
			t.Errorf("%d attempts in the first ten seconds of another time", n)
		}
		s.onConnected()
		if n := attempts(errors.New("connection refused"), time.Minute); n < 20 {
			t.Errorf("%d attempts in a minute to reach a bus that is away", n)
		}
	})
}
