package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// A State is the word for what an entry is up to.
type State string

// The states.
const (
	StateActive    State = "active"
	StateDisabled  State = "disabled"       // by its field enabled
	StateInvalid   State = "paused_invalid" // this host cannot tell when it fires
	StateExhausted State = "exhausted"      // its timing never fires again
)

// EntryState is what [Scheduler.State] tells of one entry.
type EntryState struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Why    string `json:"why,omitempty"` // of a state that is no choice of the schedule's author
	Module string `json:"module"`
	Timing string `json:"timing"` // "interval 1h30m", "cron 0 */4 * * * in Europe/London"
	// NextNominal is the time by the timing, NextFire adds the splay that was drawn. Both are zero when no fire is
	// ahead.
	NextNominal time.Time `json:"next_nominal,omitzero"`
	NextFire    time.Time `json:"next_fire,omitzero"`
	Running     int       `json:"running"` // runs in flight
	History
}

// History is what is remembered of an entry, by its name. Times are zero for what has not happened.
type History struct {
	Seen          time.Time         `json:"seen,omitzero"`      // first active
	Left          time.Time         `json:"left,omitzero"`      // removed from the schedule
	Nominal       time.Time         `json:"nominal,omitzero"`   // of the last fire, also of one that did not run
	Fired         time.Time         `json:"fired,omitzero"`     // of the last run
	Started       time.Time         `json:"started,omitzero"`   // of the last run
	Ended         time.Time         `json:"ended,omitzero"`     // of the last run that ended
	Succeeded     time.Time         `json:"succeeded,omitzero"` // end of the last run that succeeded
	Error         string            `json:"error,omitempty"`    // of the last run that ended; empty if it succeeded
	Runs          uint64            `json:"runs"`               // that ended
	Failures      uint64            `json:"failures"`
	FailuresInRow uint64            `json:"failures_in_row"`
	Skips         map[Reason]uint64 `json:"skips,omitempty"` // fires that did not run
}

func (h History) clone() History {
	h.Skips = maps.Clone(h.Skips)
	return h
}

func (o *owner) state() []EntryState {
	list := make([]EntryState, 0, len(o.set))
	for _, name := range slices.Sorted(maps.Keys(o.set)) {
		e := o.entries[name]
		s := EntryState{
			Name: name, State: StateActive, Module: e.spec.Module, Timing: describe(e.spec.Clock),
			Running: e.running, History: e.clone(),
		}
		switch {
		case !e.spec.Enabled:
			s.State = StateDisabled
		case e.invalid != "":
			s.State, s.Why = StateInvalid, e.invalid
		case e.next.trigger == "":
			s.State, s.Why = StateExhausted, "no fire within 50 years"
		default:
			s.NextNominal, s.NextFire = o.time(e, e.next.nominal()), o.time(e, e.next.at)
		}
		list = append(list, s)
	}
	return list
}

// describe puts a timing into the words of its fields; empty for a disabled entry that has none.
func describe(c schedule.Clock) string {
	var text string
	switch {
	case c.Interval.Months == 1:
		text = "interval monthly"
	case c.Interval.Months > 1:
		text = fmt.Sprintf("interval %d months", c.Interval.Months)
	case c.Interval.Duration > 0:
		return "interval " + shorten(c.Interval.Duration)
	case len(c.Cron) > 0:
		texts := make([]string, len(c.Cron))
		for i, x := range c.Cron {
			texts[i] = x.Text
		}
		text = "cron " + strings.Join(texts, " | ")
	}
	if c.Zone != "" {
		text += " in " + c.Zone
	}
	return text
}

// shorten writes 1h30m for 1h30m0s.
func shorten(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// stateVersion is that of the state file's form.
const stateVersion = 1

type stateFile struct {
	V       int                `json:"v"`
	Entries map[string]History `json:"entries"`
}

// load reads a state file; there need not be one.
func load(path string, log *slog.Logger) (map[string]History, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the scheduler's state: %w", err)
	}
	var f stateFile
	err = json.Unmarshal(data, &f)
	if err == nil && f.V > stateVersion {
		err = fmt.Errorf("its form is version %d, this build knows up to %d", f.V, stateVersion)
	}
	if err == nil {
		return f.Entries, nil
	}
	aside := path + ".bad"
	log.Warn("the scheduler's state cannot be understood and starts afresh", "moved_to", aside, "err", err)
	if err := os.Rename(path, aside); err != nil {
		return nil, fmt.Errorf("cannot move the scheduler's state aside: %w", err)
	}
	return nil, nil
}

// store replaces the state file: a crash leaves the old one or the new one.
func store(path string, entries map[string]History) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(stateFile{V: stateVersion, Entries: entries})
	if err == nil {
		err = replace(path, data)
	}
	if err != nil {
		return fmt.Errorf("cannot store the scheduler's state: %w", err)
	}
	return nil
}

func replace(path string, data []byte) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

const (
	saveEvery = time.Second
	saveAgain = time.Minute // after a write that went wrong
)

// save writes the state on a goroutine of its own, which reports to saved.
func (o *owner) save(now instant) {
	if !o.dirty || o.saving || now.up < o.saveAt {
		return
	}
	o.dirty = false
	if o.s.o.StateFile == "" {
		return
	}
	o.saving, o.saveAt = true, now.up+saveEvery
	histories := o.histories()
	go func() { o.saved <- store(o.s.o.StateFile, histories) }()
}

func (o *owner) afterSave(err error) {
	o.saving = false
	if err != nil {
		o.dirty, o.saveAt = true, o.saveAt+saveAgain
		o.s.log.Error("history of runs is in memory only", "err", err)
	}
}

// histories is a copy of what the state file has to hold.
func (o *owner) histories() map[string]History {
	out := make(map[string]History, len(o.entries))
	for name, e := range o.entries {
		if !e.Seen.IsZero() {
			out[name] = e.clone()
		}
	}
	return out
}
