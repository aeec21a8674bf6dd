package reconciler

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// A board is what others may read of a term.
type board struct {
	mu   sync.Mutex
	sync status.Sync
}

func newBoard(s status.Sync) *board {
	b := &board{sync: s}
	b.set(status.Condition{Type: status.Ready, Reason: "NoRevision", Message: "no revision has been brought to the fleet yet"})
	return b
}

// read returns a copy without the counts.
func (b *board) read() status.Sync {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sync
	s.Conditions = slices.Clone(s.Conditions)
	return s
}

// set puts a condition up, in the place of the one of its type.
func (b *board) set(c status.Condition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(c)
}

func (b *board) put(c status.Condition) {
	c.Message = cut(c.Message)
	c.LastTransitionTime = time.Now().UTC()
	i := slices.IndexFunc(b.sync.Conditions, func(o status.Condition) bool { return o.Type == c.Type })
	if i < 0 {
		b.sync.Conditions = append(b.sync.Conditions, c)
		return
	}
	if old := b.sync.Conditions[i]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	b.sync.Conditions[i] = c
}

func cut(text string) string {
	if len(text) <= status.MaxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:status.MaxMessage-len("…")], "") + "…"
}

// clear marks conditions that are up as false.
func (b *board) clear(types ...status.Type) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down(types...)
}

func (b *board) down(types ...status.Type) {
	for _, c := range b.sync.Conditions {
		if c.Status && slices.Contains(types, c.Type) {
			b.put(status.Condition{Type: c.Type})
		}
	}
}

func (b *board) observe(head gitrepo.Hash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Observed = settings.Commit(head.String())
}

// refuse shows that a revision is not brought to the fleet.
func (b *board) refuse(c status.Condition, messages []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down(status.CompileFailed, status.GuardBlocked)
	b.put(c)
	for i := range messages {
		messages[i] = cut(messages[i])
	}
	b.sync.LastAttempted, b.sync.Errors = c.ObservedRevision, messages
}

// good shows the revision that was just put in force.
func (b *board) good(c gitrepo.Commit, generation uint64, writes int, warnings []plan.Warning) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down(status.CompileFailed, status.GuardBlocked)
	commit := settings.Commit(c.Hash.String())
	if b.sync.LastGood.Commit != commit {
		b.sync.Writes = 0
	}
	b.sync.Writes += writes
	b.sync.LastAttempted, b.sync.Errors = commit, nil
	b.sync.Warnings = nil
	for _, w := range warnings {
		b.sync.Warnings = append(b.sync.Warnings, w.String())
	}
	b.inForce(c, generation)
}

// serves shows the revision that an earlier term has put in force. What is said of a newer one stays.
func (b *board) serves(c gitrepo.Commit, generation uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inForce(c, generation)
}

func (b *board) inForce(c gitrepo.Commit, generation uint64) {
	commit := settings.Commit(c.Hash.String())
	b.sync.LastGood = status.Revision{Commit: commit, Author: byline(c), Message: c.Subject(), Time: c.Time}
	b.sync.Generation = generation
	b.put(status.Condition{
		Type: status.Ready, Status: true, Reason: "InForce", ObservedRevision: commit,
		Message: commit.Short() + " " + c.Subject(),
	})
}
