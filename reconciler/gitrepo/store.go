package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	maxBlob   = MaxFile
	maxCommit = 1 << 20  // bytes of a commit object that are kept; the rest is message
	maxHashed = 64 << 20 // bytes of an object whose hash is checked
	maxTree   = 16 << 20 // bytes of one tree object
	maxSizes  = 500_000  // cached sizes of objects
	maxHaves  = 256      // commits that a request names as present

	largeObject = 1 << 20 // bytes; a larger object is never held in memory as a whole
	objectCache = 16 * cache.MiByte
)

var (
	errMissing  = errors.New("object not found")
	errTooLarge = ErrPackTooLarge
)

// store reads a Git directory strictly: the hash of every object is computed
// again. go-git's storage is not safe for concurrent use, so one mutex guards it.
type store struct {
	inPlace bool // a local repository, which other programs change

	mu      sync.Mutex
	dir     string // changes only in place
	objects *filesystem.Storage
	damage  error // what a strict read found wrong, nil if nothing yet

	sizes memo[int64] // known without the objects, should a local repository be moved away
}

func newStore(dir string, inPlace bool) *store {
	return &store{inPlace: inPlace, dir: dir, objects: newStorage(dir, filesystem.Options{})}
}

func newStorage(dir string, o filesystem.Options) *filesystem.Storage {
	o.KeepDescriptors, o.LargeObjectThreshold = true, largeObject
	return filesystem.NewStorageWithOptions(osfs.New(dir, osfs.WithBoundOS()), cache.NewObjectLRU(objectCache), o)
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects.Close()
}

// reopen makes the store read from dir. change, if not nil, runs under the lock;
// its error is the damage of the store afterwards.
func (s *store) reopen(dir string, change func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.objects.Close() // only reading descriptors
	s.dir, s.objects = dir, newStorage(dir, filesystem.Options{})
	if change != nil {
		s.damage = change()
	}
	return s.damage
}

// broken returns the damage that a strict read has found, nil if none.
func (s *store) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damage
}

// guarded calls read under the lock. In place it tries twice: Git may have
// moved the objects to another pack.
func (s *store) guarded(what string, read func(*filesystem.Storage) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := caught(s.objects, read)
	if s.inPlace && errors.Is(err, errMissing) {
		_ = s.objects.Close()
		s.objects = newStorage(s.dir, filesystem.Options{})
		err = caught(s.objects, read)
	}
	if err == nil || errors.Is(err, errTooLarge) {
		return err
	}
	err = fmt.Errorf("%s: %w", what, err)
	if !errors.Is(err, errMissing) && !isTransient(err) && s.damage == nil {
		s.damage = err
	}
	return err
}

// caught turns a panic into an error: go-git panics on some damaged files.
func caught(objects *filesystem.Storage, read func(*filesystem.Storage) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	if err = read(objects); errors.Is(err, plumbing.ErrObjectNotFound) || errors.Is(err, fs.ErrNotExist) {
		err = errMissing
	}
	return err
}

// isTransient reports whether an error has its cause in the machine, such as too
// many open files, and not in the store.
func isTransient(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Failure converts the error of a read to an Error about subject. The object had
// to be there, so a missing one counts as damage.
func (s *store) Failure(subject string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if errors.Is(err, errTooLarge) {
		return errorf(TooLarge, subject, "%v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.damage == nil && !isTransient(err) {
		s.damage = err
	}
	if s.inPlace {
		return errorf(RemoteDamaged, subject, "%v", err)
	}
	return errorf(StoreDamaged, subject, "%v", err)
}

// Size returns the size of an object in bytes.
func (s *store) Size(h Hash) (int64, error) {
	return s.sizes.get(h, maxSizes, func() (size int64, err error) {
		err = s.guarded(h.String(), func(st *filesystem.Storage) (err error) {
			size, err = st.EncodedObjectSize(plumbing.Hash(h))
			return err
		})
		return size, err
	})
}

// Read returns an object and its size in bytes after checking its type and
// hash. It fails with errMissing, and with errTooLarge if it has more than most
// bytes; of a commit it returns the first most bytes then.
func (s *store) Read(t plumbing.ObjectType, h Hash, most int64) (data []byte, size int64, err error) {
	err = s.guarded(t.String()+" "+h.String(), func(st *filesystem.Storage) error {
		o, err := st.EncodedObject(plumbing.AnyObject, plumbing.Hash(h))
		if err != nil {
			return err
		}
		if size = o.Size(); size > most && t != plumbing.CommitObject {
			return fmt.Errorf("%w, %d bytes of at most %d", errTooLarge, size, most)
		}
		if o.Type() != t {
			return fmt.Errorf("it is a %s", o.Type())
		}
		data, err = content(o, h, most)
		return err
	})
	return data, size, err
}

// content returns the first bytes of an object and reads the rest for its hash,
// unless that is more than maxHashed: go-git computed it when it was fetched.
func content(o plumbing.EncodedObject, h Hash, most int64) (data []byte, err error) {
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sum := plumbing.NewHasher(o.Type(), o.Size())
	if data, err = io.ReadAll(io.LimitReader(io.TeeReader(r, sum), most)); err != nil || o.Size() > maxHashed {
		return data, err
	}
	if int64(len(data)) == most { // else that was all
		if _, err = io.Copy(sum, io.LimitReader(r, maxHashed)); err != nil {
			return nil, err
		}
	}
	if got := sum.Sum(); got != plumbing.Hash(h) {
		return nil, fmt.Errorf("content has the hash %s", got)
	}
	return data, nil
}

// complete checks that a commit is there with its root tree. The error wraps
// errMissing if there is no such commit.
func (s *store) complete(h Hash) error {
	c, err := s.commit(h)
	if err != nil {
		return err
	}
	if _, err := s.Tree(c.tree); err != nil {
		return s.Failure(revision(h), err)
	}
	return nil
}

// ref returns the commit that a reference names; ok is false without it.
func (s *store) ref(name plumbing.ReferenceName) (h Hash, ok bool, err error) {
	err = s.guarded(name.String(), func(st *filesystem.Storage) error {
		ref, err := storer.ResolveReference(st, name)
		if errors.Is(err, plumbing.ErrReferenceNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		h, ok = Hash(ref.Hash()), true
		return nil
	})
	return h, ok, err
}

// refs returns the references below a prefix, by the rest of their names.
func (s *store) refs(prefix string) (map[string]Hash, error) {
	found := map[string]Hash{}
	err := s.guarded(prefix, func(st *filesystem.Storage) error {
		it, err := st.IterReferences()
		if err != nil {
			return err
		}
		return it.ForEach(func(ref *plumbing.Reference) error {
			if name, ok := strings.CutPrefix(ref.Name().String(), prefix); ok && ref.Type() == plumbing.HashReference {
				found[name] = Hash(ref.Hash())
			}
			return nil
		})
	})
	return found, err
}

// newest lists the newest commits of all references, at most maxHaves.
func (s *store) newest() ([]plumbing.Hash, error) {
	heads, err := s.refs("refs/")
	if err != nil {
		return nil, err
	}
	var commits []plumbing.Hash
	var queue []Hash
	for _, tip := range heads {
		queue = append(queue, tip)
	}
	for ; len(queue) > 0 && len(commits) < maxHaves; queue = queue[1:] {
		if slices.Contains(commits, plumbing.Hash(queue[0])) {
			continue
		}
		c, err := s.commit(queue[0])
		if err != nil {
			return nil, err
		}
		commits, queue = append(commits, plumbing.Hash(c.Hash)), append(queue, c.Parents...)
	}
	return commits, nil
}

func (s *store) setRef(name plumbing.ReferenceName, h Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.objects.SetReference(plumbing.NewHashReference(name, plumbing.Hash(h))); err != nil {
		return storeError(s.dir, err)
	}
	return nil
}

func storeError(dir string, err error) error {
	return errorf(StoreUnwritable, dir, "%v", err)
}
