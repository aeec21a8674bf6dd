package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
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
	maxBlob   = 1 << 20  // bytes of a file that is read
	maxCommit = 1 << 20  // bytes of a commit object that are held; what comes after is text
	maxHashed = 64 << 20 // bytes of an object of which only the beginning is held, for its hash to be checked
	maxTree   = 16 << 20 // bytes of one tree object

	// Objects above this size are never held in memory as a whole.
	largeObject = 1 << 20
	objectCache = 16 * cache.MiByte
)

// errMissing tells that a store does not hold an object.
var errMissing = errors.New("object not found")

// store is a Git directory on disk, read strictly: the hash of every object is
// computed again. go-git keeps unguarded maps in its storage, so all access
// goes through one mutex. The storage behind it can be exchanged while
// snapshots read.
type store struct {
	dir     string
	damaged Reason // what a read that fails is called: StoreDamaged or RemoteDamaged

	mu      sync.Mutex
	objects *filesystem.Storage
	damage  error // what a strict read found wrong, nil if nothing yet
}

func newStore(dir string, damaged Reason) *store {
	return &store{dir: dir, damaged: damaged, objects: newStorage(dir)}
}

func newStorage(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir, osfs.WithBoundOS()), cache.NewObjectLRU(objectCache),
		filesystem.Options{KeepDescriptors: true, LargeObjectThreshold: largeObject})
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects.Close()
}

// replace exchanges the directory by means of swap while nobody reads.
func (s *store) replace(swap func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.objects.Close() // only reading descriptors
	s.objects = newStorage(s.dir)
	if err := swap(); err != nil {
		return err
	}
	s.damage = nil
	return nil
}

// broken returns what a strict read found wrong with the store.
func (s *store) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damage
}

// guarded calls read under the lock. go-git panics on some damaged files; that
// is damage like any other.
func (s *store) guarded(what string, read func(*filesystem.Storage) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err == nil || errors.Is(err, errTooLarge) {
			return
		}
		err = fmt.Errorf("%s: %w", what, err)
		if !errors.Is(err, errMissing) && !passing(err) && s.damage == nil {
			s.damage = err
		}
	}()
	return read(s.objects)
}

// passing tells errors of the machine from damage of the files.
func passing(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// failure turns the error of reading something that has to be there into one
// for the caller. A missing object counts as damage.
func (s *store) failure(subject string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if errors.Is(err, errTooLarge) {
		return errorf(TooLarge, subject, "%v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.damage == nil && !passing(err) {
		s.damage = err
	}
	return errorf(s.damaged, subject, "%v", err)
}

// has reports whether the object is present, without reading it.
func (s *store) has(h Hash) (bool, error) {
	err := s.guarded(h.String(), func(st *filesystem.Storage) error {
		return missing(st.HasEncodedObject(plumbing.Hash(h)))
	})
	if errors.Is(err, errMissing) {
		return false, nil
	}
	return err == nil, err
}

func missing(err error) error {
	if errors.Is(err, plumbing.ErrObjectNotFound) || errors.Is(err, fs.ErrNotExist) {
		return errMissing
	}
	return err
}

var errTooLarge = errors.New("too large")

// size is the size of an object in bytes.
func (s *store) size(h Hash) (size int64, err error) {
	err = s.guarded(h.String(), func(st *filesystem.Storage) error {
		size, err = st.EncodedObjectSize(plumbing.Hash(h))
		return missing(err)
	})
	return size, err
}

// read returns the content of an object after checking its type, its size
// against limit, and its hash. It fails with errMissing or errTooLarge.
func (s *store) read(t plumbing.ObjectType, h Hash, limit int64) (data []byte, err error) {
	err = s.guarded(t.String()+" "+h.String(), func(st *filesystem.Storage) error {
		o, err := st.EncodedObject(plumbing.AnyObject, plumbing.Hash(h))
		if err != nil {
			return missing(err)
		}
		if size := o.Size(); size > limit {
			return fmt.Errorf("%w, %d bytes of at most %d", errTooLarge, size, limit)
		}
		if o.Type() != t {
			return fmt.Errorf("it is a %s", o.Type())
		}
		data, err = content(o, limit)
		if err != nil {
			return err
		}
		if got := plumbing.ComputeHash(t, data); got != plumbing.Hash(h) {
			return fmt.Errorf("content has the hash %s", got)
		}
		return nil
	})
	return data, err
}

// begin returns the first bytes of an object, most of them at most, and its
// size. It checks the type, and the hash unless the object is over maxHashed:
// that hash was checked when it was fetched.
func (s *store) begin(t plumbing.ObjectType, h Hash, most int64) (data []byte, size int64, err error) {
	err = s.guarded(t.String()+" "+h.String(), func(st *filesystem.Storage) error {
		o, err := st.EncodedObject(plumbing.AnyObject, plumbing.Hash(h))
		if err != nil {
			return missing(err)
		}
		if o.Type() != t {
			return fmt.Errorf("it is a %s", o.Type())
		}
		size = o.Size()
		data, err = first(o, h, most)
		return err
	})
	return data, size, err
}

// first returns the first bytes of an object and reads the rest for its hash.
func first(o plumbing.EncodedObject, h Hash, most int64) (data []byte, err error) {
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sum := plumbing.NewHasher(o.Type(), o.Size())
	if data, err = io.ReadAll(io.LimitReader(io.TeeReader(r, sum), most)); err != nil || o.Size() > maxHashed {
		return data, err
	}
	if _, err = io.Copy(sum, io.LimitReader(r, maxHashed)); err != nil {
		return nil, err
	}
	if got := sum.Sum(); got != plumbing.Hash(h) {
		return nil, fmt.Errorf("content has the hash %s", got)
	}
	return data, nil
}

func content(o plumbing.EncodedObject, limit int64) (data []byte, err error) {
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return io.ReadAll(io.LimitReader(r, limit+1))
}

// packs counts the packs of the store.
func (s *store) packs() int {
	names, err := filepath.Glob(filepath.Join(s.dir, "objects", "pack", "pack-*.pack"))
	if err != nil {
		return 0 // only a bad pattern
	}
	return len(names)
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
			if rest, ok := strings.CutPrefix(ref.Name().String(), prefix); ok && ref.Type() == plumbing.HashReference {
				found[rest] = Hash(ref.Hash())
			}
			return nil
		})
	})
	return found, err
}

func (s *store) setRef(name plumbing.ReferenceName, h Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.objects.SetReference(plumbing.NewHashReference(name, plumbing.Hash(h))); err != nil {
		return storeError(s.dir, err)
	}
	return nil
}

func (s *store) removeRef(name plumbing.ReferenceName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.objects.RemoveReference(name); err != nil {
		return storeError(s.dir, err)
	}
	return nil
}

func storeError(dir string, err error) error {
	return errorf(StoreUnwritable, dir, "%v", err)
}
