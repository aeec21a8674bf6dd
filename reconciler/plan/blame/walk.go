package blame

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// version holds the schedule entries of one version of a file.
type version struct {
	readable bool
	entries  map[string]value
}

// value is the hash of an entry's value, and its line.
type value struct {
	sum  [sha256.Size]byte
	line int
}

func valueOf(p strictyaml.Pair) (value, error) {
	data, err := canon.Marshal(p.Value.Any())
	return value{sha256.Sum256(data), p.KeyPos.Line}, err
}

// trace is the search for the origin of one place.
type trace struct {
	place
	value value           // the value to find, and its line at have
	have  settings.Commit // the earliest visited commit with the value
	steps int             // from the head to have
}

// A frontier holds the traces that have reached a commit, by file.
type frontier struct {
	commit settings.Commit
	steps  int
	traces map[string][]*trace
}

// A walk follows traces from the head to the commits before it.
type walk struct {
	ctx      context.Context
	history  History
	known    map[place]finding
	found    map[place]finding
	versions map[string]version // by hash of the content
	at       map[settings.Commit]*frontier
	queue    []*frontier
	authors  map[settings.Commit]settings.Origin
}

func newWalk(ctx context.Context, b *Blamer) walk {
	return walk{
		ctx: ctx, history: b.history, known: b.known, found: map[place]finding{}, versions: map[string]version{},
		at: map[settings.Commit]*frontier{}, authors: map[settings.Commit]settings.Origin{},
	}
}

func (w *walk) start(head settings.Commit, p place, pair strictyaml.Pair) {
	if _, twice := w.found[p]; twice {
		return
	}
	v, err := valueOf(pair)
	if err != nil {
		return // canonical values were made of it before
	}
	w.found[p] = finding{} // until it is found
	w.enqueue(head, 0, &trace{place: p, value: v, have: head})
}

// enqueue adds traces to the frontier of a commit.
func (w *walk) enqueue(commit settings.Commit, steps int, traces ...*trace) {
	s := w.at[commit]
	if s == nil {
		s = &frontier{commit: commit, steps: steps, traces: map[string][]*trace{}}
		w.at[commit] = s
		w.queue = append(w.queue, s)
	}
	for _, t := range traces {
		s.traces[t.file] = append(s.traces[t.file], t)
	}
}

func (w *walk) settle(traces ...*trace) {
	for _, t := range traces {
		w.found[t.place] = finding{commit: t.have, line: t.value.line, steps: t.steps}
	}
}

func (w *walk) run() error {
	for n := 0; len(w.queue) > 0; n++ {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		s := w.queue[0]
		w.queue = w.queue[1:]
		delete(w.at, s.commit)
		if n == maxCommits {
			for _, rest := range append(w.queue, s) {
				for _, traces := range rest.traces {
					w.settle(traces...)
				}
			}
			return nil
		}
		w.settleKnown(s)
		if err := w.advance(s); err != nil {
			return err
		}
	}
	return nil
}

// settleKnown ends the traces whose origin an earlier Blame found from this commit.
func (w *walk) settleKnown(s *frontier) {
	for file, traces := range s.traces {
		s.traces[file] = slices.DeleteFunc(traces, func(t *trace) bool {
			k, ok := w.known[t.place]
			if !ok || k.head != s.commit || t.have != s.commit {
				return false
			}
			w.found[t.place] = finding{commit: k.commit, line: k.line, steps: t.steps + k.steps}
			return true
		})
		if len(s.traces[file]) == 0 {
			delete(s.traces, file)
		}
	}
}

// advance moves the traces at a commit to its parents, or ends them at the commit.
func (w *walk) advance(s *frontier) error {
	if len(s.traces) == 0 {
		return nil
	}
	parents, err := w.history.Parents(s.commit)
	if err != nil {
		return err
	}
	for _, p := range parents {
		same := map[string]bool{}
		if err := w.same(s.commit, p, plan.SettingsDir, slices.Sorted(maps.Keys(s.traces)), same); err != nil {
			return err
		}
		for file := range same {
			w.step(s, p, s.traces[file], nil)
			delete(s.traces, file)
		}
		if len(s.traces) == 0 {
			return nil
		}
	}
	for file, traces := range s.traces {
		if err := w.splitByParent(s, parents, file, traces); err != nil {
			return err
		}
	}
	return nil
}

// step moves traces on to a parent that has their values. v is the parent's version of the file; nil if the file is the
// same at the commit.
func (w *walk) step(s *frontier, parent settings.Commit, traces []*trace, v *version) {
	for _, t := range traces {
		if v != nil {
			t.have, t.steps, t.value = parent, s.steps+1, v.entries[t.entry]
		} else if t.have == s.commit {
			t.have, t.steps = parent, s.steps+1
		}
	}
	w.enqueue(parent, s.steps+1, traces...)
}

// splitByParent handles a file that no parent has in the same version: each trace goes to the first parent that has its
// value, else to the first one whose version cannot be read.
func (w *walk) splitByParent(s *frontier, parents []settings.Commit, file string, traces []*trace) error {
	opaque := settings.Commit("")
	for _, p := range parents {
		v, err := w.version(p, file)
		if err != nil {
			return err
		}
		if !v.readable && opaque == "" {
			opaque = p
		}
		var equal, rest []*trace
		for _, t := range traces {
			if there, ok := v.entries[t.entry]; ok && there.sum == t.value.sum {
				equal = append(equal, t)
			} else {
				rest = append(rest, t)
			}
		}
		if len(equal) > 0 {
			w.step(s, p, equal, &v)
		}
		traces = rest
	}
	if opaque != "" {
		w.enqueue(opaque, s.steps+1, traces...)
		return nil
	}
	w.settle(traces...)
	return nil
}

// same adds to out the files that are equal at two commits. files are sorted and all in dir. Directories with equal
// hashes are not read.
func (w *walk) same(a, b settings.Commit, dir string, files []string, out map[string]bool) error {
	equal, err := w.equal(a, b, dir)
	if err != nil {
		return err
	}
	for len(files) > 0 {
		if equal {
			out[files[0]] = true
			files = files[1:]
			continue
		}
		name, _, below := strings.Cut(files[0][len(dir)+1:], "/")
		at := dir + "/" + name
		if !below {
			if out[at], err = w.equal(a, b, at); err != nil {
				return err
			}
			if !out[at] {
				delete(out, at)
			}
			files = files[1:]
			continue
		}
		n := slices.IndexFunc(files, func(f string) bool { return !strings.HasPrefix(f, at+"/") })
		if n < 0 {
			n = len(files)
		}
		if err := w.same(a, b, at, files[:n], out); err != nil {
			return err
		}
		files = files[n:]
	}
	return nil
}

func (w *walk) equal(a, b settings.Commit, path string) (bool, error) {
	x, err := w.history.Hash(a, path)
	if err != nil || x == "" {
		return false, err
	}
	y, err := w.history.Hash(b, path)
	return x == y, err
}

// version reads the file of a commit. A missing file is readable and has no entries.
func (w *walk) version(commit settings.Commit, file string) (version, error) {
	hash, err := w.history.Hash(commit, file)
	if err != nil {
		return version{}, err
	}
	if hash == "" {
		return version{readable: true}, nil
	}
	if v, ok := w.versions[hash]; ok {
		return v, nil
	}
	data, err := w.history.Read(commit, file)
	if err != nil && !errors.Is(err, ErrNoContent) {
		return version{}, err
	}
	var node *strictyaml.Node
	if err == nil {
		node, err = strictyaml.Parse(file, data)
	}
	v := version{readable: err == nil, entries: map[string]value{}}
	for name, pair := range plan.Origins(node) {
		if v.entries[name], err = valueOf(pair); err != nil {
			return version{}, err
		}
	}
	w.versions[hash] = v
	return v, nil
}
