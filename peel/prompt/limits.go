package prompt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

// hour is the time within which requests and their costs are added up.
const hour = time.Hour

// limits counts what the last hour has used. The file has it before a request is sent, so that a crash or a restart
// loses nothing.
type limits struct {
	file     string
	requests int     // the most in an hour
	cost     float64 // the most in an hour; 0: no limit

	mu sync.Mutex
}

// A use is one request.
type use struct {
	ID   uint64    `json:"id"`
	At   time.Time `json:"at"`
	Cost float64   `json:"cost"` // the most that it can cost, until the real cost is known
}

// maxUses is the size of the file in bytes that is read: a thousand uses have a tenth of it.
const maxUses = 1 << 20

// readLocked returns the uses of the last hour. An error is not an empty file: nobody knows then what was used.
func (l *limits) readLocked(now time.Time) ([]use, error) {
	f, err := os.Open(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var uses []use
	if err == nil {
		defer f.Close()
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(f, maxUses)); err == nil {
			err = canon.Unmarshal(data, &uses)
		}
	}
	if err != nil {
		return nil, fmt.Errorf(
			"cannot tell how many prompts ran in the last hour: %s: %w; if it stays damaged, remove the file", l.file,
			err,
		)
	}
	for i := range uses {
		if uses[i].At.After(now) { // the clock was set back
			uses[i].At = now
		}
	}
	return slices.DeleteFunc(uses, func(u use) bool { return now.Sub(u.At) >= hour }), nil
}

func (l *limits) storeLocked(uses []use) error {
	data, err := canon.Marshal(uses)
	if err == nil {
		err = renameio.WriteFile(l.file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot count the prompt, so it is not sent: %w", err)
	}
	return nil
}

// take counts a request that can cost so much, or returns an error that says when there is room for it.
func (l *limits) take(now time.Time, cost float64) (id uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uses, err := l.readLocked(now)
	if err != nil {
		return 0, err
	}
	spent := 0.0
	for _, u := range uses {
		spent += u.Cost
		id = max(id, u.ID)
	}
	id++
	if len(uses) >= l.requests {
		_ = l.storeLocked(uses) // if the clock was set back, the hour begins now
		return 0, fmt.Errorf("the limit of %d requests an hour is reached (max_requests of prompt in peel.yaml); "+
			"the next may be sent at %s",
			l.requests, uses[len(uses)-l.requests].At.Add(hour).UTC().Format(time.RFC3339))
	}
	if l.cost > 0 && spent+cost > l.cost {
		_ = l.storeLocked(uses)
		return 0, fmt.Errorf(
			"the request can cost %.6g, and of the %.6g for an hour %.6g are used (max_cost of prompt in peel.yaml)",
			cost, l.cost, spent,
		)
	}
	return id, l.storeLocked(append(uses, use{ID: id, At: now, Cost: cost}))
}

// settle records what a request has cost.
func (l *limits) settle(now time.Time, id uint64, cost float64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	uses, err := l.readLocked(now)
	if err != nil {
		return err
	}
	for i := range uses {
		if uses[i].ID == id {
			uses[i].Cost = cost
		}
	}
	return l.storeLocked(uses)
}
