package gitrepo

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

// WatchGitDir returns a channel with a value whenever a reference of a repository may
// have moved. Values that were not received are merged into one. The channel is
// closed after ctx has ended and the watch is released. Keep polling: NFS, for
// example, reports nothing.
func WatchGitDir(ctx context.Context, repo, ref string) (<-chan struct{}, error) {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watch{notify: n, repo: repo, ref: ref, watched: map[string]fs.FileInfo{}, signal: make(chan struct{}, 1)}
	w.watchAll()
	go w.run(ctx)
	return w.signal, nil
}

// watch observes the directories that a change of the reference writes to. Git
// writes X.lock and renames it to X, packs references into packed-refs, removes
// the loose ones and empty directories. If a repository is removed and created
// again, inotify drops its watches. So after each event all directories that
// exist are watched, parents included.
type watch struct {
	notify  *fsnotify.Watcher
	repo    string
	ref     string
	watched map[string]fs.FileInfo // directories, as they were when their watch began
	files   map[string]bool        // paths whose events count
	signal  chan struct{}
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
			if w.watchAll() || counts {
				w.send()
			}
		case err, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.watchAll()
				w.send()
			}
		}
	}
}

func (w *watch) send() {
	select {
	case w.signal <- struct{}{}:
	default: // a value waits already
	}
}

// watchAll watches the directories that exist now, and reports whether one is new
// or replaces another one of the same name.
func (w *watch) watchAll() (found bool) {
	for again := true; again; {
		again = false
		for _, dir := range w.dirs() {
			info, err := os.Stat(dir)
			if err != nil {
				delete(w.watched, dir)
				continue
			}
			before, ok := w.watched[dir]
			if ok && os.SameFile(before, info) && slices.Contains(w.notify.WatchList(), dir) {
				continue // a new directory may have the inode of the removed one
			}
			_ = w.notify.Remove(dir) // the watch of the replaced directory
			if w.notify.Add(dir) == nil {
				w.watched[dir] = info
				found, again = true, true
			}
		}
	}
	return found
}

// dirs returns the directories to watch, and sets the paths whose events count.
func (w *watch) dirs() []string {
	dirs := []string{filepath.Dir(w.repo), w.repo}
	w.files = map[string]bool{w.repo: true, filepath.Join(w.repo, ".git"): true}
	git, err := FindGitDir(w.repo)
	if err != nil {
		git = filepath.Join(w.repo, ".git")
		if _, err := os.Stat(git); err != nil {
			git = w.repo // a bare repository that is being created
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
