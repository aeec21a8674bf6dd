package reconciler

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// applyLimit is how long a peel that is online may take to apply a revision before it counts as failed in its wave.
const applyLimit = 5 * time.Minute

// A verdict says what is to become of a wave.
type verdict string

const (
	waveWaits   verdict = "waits" // for peels to apply it, or to come online
	waveApplied verdict = "applied"
	waveSoaks   verdict = "soaks"
	wavePassed  verdict = "passed"
	waveFailed  verdict = "failed"
)

// health is how the peels are that a rollout changes and has reached.
type health struct {
	peels   int
	applied int
	pending int // online, and has not applied it
	offline int
	failed  []string // peels with what went wrong, sorted
}

// judge says how a wave is at now. Peels that are offline are not waited for, but one has to have applied it at least.
func judge(r *record.Rollout, w top.Wave, h health, now time.Time) verdict {
	switch {
	case len(h.failed) > w.MaxFailures.Within(h.peels):
		return waveFailed
	case !r.Soaking.IsZero() && now.Sub(r.Soaking) >= w.Soak:
		return wavePassed
	case !r.Soaking.IsZero():
		return waveSoaks
	case h.applied == 0 && len(h.failed) == 0 || h.pending > 0:
		return waveWaits
	}
	return waveApplied
}

// failures names what failed, as much of it as a status has room for.
func (h health) failures(allowed int) string {
	const most = 5
	text := strings.Join(h.failed[:min(most, len(h.failed))], "; ")
	if more := len(h.failed) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Sprintf("%d of %d peels, %d may: %s", len(h.failed), h.peels, allowed, text)
}

// mark stands for the text of an error in a record.
func mark(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// knownMarks returns the marks of the errors that peels report, sorted, at most [record.MaxKnown].
func knownMarks(errors map[target.PeelID][]string) []string {
	marks := map[string]bool{}
	for _, texts := range errors {
		for _, text := range texts {
			marks[mark(text)] = true
		}
	}
	all := slices.Sorted(maps.Keys(marks))
	return all[:min(record.MaxKnown, len(all))]
}

// news is the first error that no peel had before the rollout began, empty if there is none.
func news(r *record.Rollout, errs []string) string {
	for _, text := range errs {
		if _, known := slices.BinarySearch(r.Known, mark(text)); !known {
			return text
		}
	}
	return ""
}

// health looks at the peels that have the revision. A peel has failed if, since the wave began, it reported an error of
// its settings that none had before, or a run of an entry in the version that the revision brings was not a success, or if it is online and
// has not applied the revision within applyLimit.
func (t *term) health() (h health) {
	r, now := t.last.Rollout, time.Now()
	failedRuns := t.rolling.runs.Failures()
	for id := range t.rolling.plan.Peels {
		if !r.Reaches(id) || !t.rolling.changes(id) {
			continue
		}
		h.peels++
		seen := t.progress.View(id)
		if !seen.Applied && seen.Online {
			if t.rolling.late[id].IsZero() {
				t.rolling.late[id] = now
			}
		} else {
			delete(t.rolling.late, id)
		}
		since, late := t.rolling.late[id]
		switch {
		case failedRuns[id] != "":
			h.failed = append(h.failed, string(id)+": "+failedRuns[id])
		case seen.Sequence > r.Reports && news(r, seen.Errors) != "":
			h.failed = append(h.failed, string(id)+": "+news(r, seen.Errors))
		case seen.Applied:
			h.applied++
		case late && now.Sub(since) >= applyLimit && r.Soaking.IsZero():
			h.failed = append(h.failed, fmt.Sprintf("%s: it has not applied the revision within %s", id, applyLimit))
		case seen.Online:
			h.pending++
		default:
			h.offline++
		}
	}
	slices.Sort(h.failed)
	return h
}
