package gitdir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// Watch signals when a reference of the repository at a path may have moved.
// Signals that nobody took are merged into one. The channel is closed when ctx
// has ended and nothing of the watch is left. A watch is only ever a hint: NFS
// reports nothing, so keep on polling.
func Watch(ctx context.Context, repo, ref string) (<-chan struct{}, error) {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watch{notify: n, repo: repo, ref: ref, armed: map[string]fs.FileInfo{}, signal: make(chan struct{}, 1)}
	w.arm()
	go w.run(ctx)
	return w.signal, nil
}

// watch follows the directories that a move of the reference writes to. Git
// writes X.lock and renames it to X, packs references into packed-refs and
// removes the loose ones, and may remove a directory that got empty; a whole
// repository may be removed and made again, at which inotify forgets it. So
// after each event whatever exists by now is watched, parents included.
type watch struct {
	notify *fsnotify.Watcher
	repo   string
	ref    string
	armed  map[string]fs.FileInfo // watched directories, as they were then
	files  map[string]bool        // paths whose events count
	signal chan struct{}
}

func (w *watch) run(ctx context.Context) {
	defer close(w.signal)
	defer w.notify.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.notify.Events:
			if !ok {
				return
			}
			counts := w.files[e.Name] && !e.Has(fsnotify.Chmod)
			if w.arm() || counts {
				w.send()
			}
		case err, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.arm()
				w.send()
			}
		}
	}
}

func (w *watch) send() {
	select {
	case w.signal <- struct{}{}:
	default: // the one that waits covers this one
	}
}

// arm watches what is there now, and reports whether that is more than before
// or something else under the same name.
func (w *watch) arm() (found bool) {
	for again := true; again; {
		again = false
		for _, dir := range w.places() {
			info, err := os.Stat(dir)
			if err != nil {
				delete(w.armed, dir)
				continue
			}
			before, ok := w.armed[dir]
			if ok && os.SameFile(before, info) && slices.Contains(w.notify.WatchList(), dir) {
				continue // a new directory may have the inode of the removed one
			}
			_ = w.notify.Remove(dir) // that of a directory which had this name
			if w.notify.Add(dir) == nil {
				w.armed[dir] = info
				found, again = true, true
			}
		}
	}
	return found
}

// places lists the directories to watch and notes the paths that matter.
func (w *watch) places() []string {
	dirs := []string{filepath.Dir(w.repo), w.repo}
	w.files = map[string]bool{w.repo: true, filepath.Join(w.repo, ".git"): true}
	git, err := Find(w.repo)
	if err != nil {
		git = filepath.Join(w.repo, ".git")
		if _, err := os.Stat(git); err != nil {
			git = w.repo // a bare one in the making
		}
	}
	dirs = append(dirs, git)
	for _, name := range []string{"HEAD", "config", "packed-refs"} {
		w.files[filepath.Join(git, name)] = true
	}
	at := git
	for part := range strings.SplitSeq(w.ref, "/") {
		dirs = append(dirs, at)
		at = filepath.Join(at, part)
		w.files[at] = true
	}
	return dirs
}
