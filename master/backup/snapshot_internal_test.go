package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestASnapshotThatTheBusEndsIsBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, other := fmt.Errorf("%w: 500", errEnded), errors.New("the disk is full")
		for _, tc := range []struct {
			fails int
			err   error
			took  time.Duration
		}{
			{0, nil, 0},
			{20, lost, 20 * askPause},
			{20, context.DeadlineExceeded, 20 * askPause},
			{20, &jetstream.APIError{Code: 503}, 20 * askPause},
			{10000, lost, electionTime},
			{1, &jetstream.APIError{Code: 400}, 0},
			{1, other, 0},
		} {
			taken, began := 0, time.Now()
			_, err := untilLed(t.Context(), func() (Stream, error) {
				if taken++; taken <= tc.fails {
					return Stream{}, tc.err
				}
				return Stream{}, nil
			})
			if wantErr := tc.fails >= taken; wantErr != (err != nil) || time.Since(began) != tc.took {
				t.Errorf("after %d failures %v: taken %d times in %v: %v", tc.fails, tc.err, taken, time.Since(began), err)
			}
		}
	})
}

func TestACopyThatDoesNotFitIsRefused(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := checkRoom(f, 1); err != nil {
		t.Errorf("a byte: %v", err)
	}
	for _, n := range []uint64{1 << 60, math.MaxUint64} {
		if err := checkRoom(f, n); err == nil || !strings.Contains(err.Error(), "MiB free") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
