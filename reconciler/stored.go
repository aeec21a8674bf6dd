package reconciler

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	revisionsBucket = "revisions"
	keyPrefix       = "$KV." + revisionsBucket + "." // of the subjects of its stream
	maxStored       = 20                             // revisions, besides those in use
	maxPacked       = 16 << 20
	chunkBytes      = 512 << 10
	vaultWait       = 30 * time.Second // for one revision, or the list of all
)

// A source is a revision with its files, read from the repo or from what is stored. It is immutable.
type source struct {
	Commit gitrepo.Commit
	Tree   fs.FS
}

// A manifest says what is stored of a revision. It is written after all of it and removed before, so that what has a
// manifest is whole. Its key is the commit, those of the parts are <commit>.<number>.
type manifest struct {
	Commit  settings.Commit `json:"commit"`
	Author  string          `json:"author"`
	Email   string          `json:"email"`
	Message string          `json:"message"` // its first line
	Time    time.Time       `json:"time"`    // by its author's clock
	Stored  time.Time       `json:"stored"`
	Chunks  int             `json:"chunks"`
	Sum     string          `json:"sum"` // SHA-256 of the chunks together
}

// A vault keeps the files of the newest revisions on the bus, so that they serve when the repo cannot be read: to any
// master, also one that has never read it.
type vault struct {
	kv     jetstream.KeyValue
	stream jetstream.Stream // of kv
}

// list returns what is stored, the newest first.
func (v vault) list(ctx context.Context) ([]manifest, error) {
	ctx, cancel := context.WithTimeout(ctx, vaultWait)
	defer cancel()
	keys, err := v.keys(ctx, "*")
	if err != nil {
		return nil, err
	}
	var all []manifest
	for _, key := range keys {
		m, err := v.manifest(ctx, settings.Commit(key))
		if err != nil {
			return nil, err
		}
		if m != nil {
			all = append(all, *m)
		}
	}
	slices.SortFunc(all, func(a, b manifest) int { return cmp.Or(b.Stored.Compare(a.Stored), cmp.Compare(a.Commit, b.Commit)) })
	return all, nil
}

// keys are what the bucket holds that matches, a subject with wildcards.
func (v vault) keys(ctx context.Context, like string) (all []string, err error) {
	info, err := v.stream.Info(ctx, jetstream.WithSubjectFilter(keyPrefix+like))
	if err != nil {
		return nil, fmt.Errorf("cannot list the stored revisions: %w", err)
	}
	for subject := range info.State.Subjects {
		all = append(all, strings.TrimPrefix(subject, keyPrefix))
	}
	return all, nil
}

// manifest returns nil if the revision is not stored.
func (v vault) manifest(ctx context.Context, commit settings.Commit) (*manifest, error) {
	entry, err := v.kv.Get(ctx, string(commit))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	m := new(manifest)
	if err == nil {
		err = canon.Unmarshal(entry.Value(), m)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read stored revision %s: %w", commit.Short(), err)
	}
	return m, nil
}

// open returns nil if the revision is not stored.
func (v vault) open(ctx context.Context, commit settings.Commit) (*source, error) {
	ctx, cancel := context.WithTimeout(ctx, vaultWait)
	defer cancel()
	m, err := v.manifest(ctx, commit)
	if err != nil || m == nil {
		return nil, err
	}
	var packed []byte
	for i := range m.Chunks {
		entry, err := v.kv.Get(ctx, chunkKey(commit, i))
		if err != nil {
			return nil, fmt.Errorf("cannot read stored revision %s: %w", commit.Short(), err)
		}
		packed = append(packed, entry.Value()...)
	}
	if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != m.Sum {
		return nil, fmt.Errorf("cannot read stored revision %s: its parts do not fit together", commit.Short())
	}
	return m.source(packed)
}

func chunkKey(commit settings.Commit, i int) string { return fmt.Sprintf("%s.%d", commit, i) }

// source unpacks what pack has made.
func (m *manifest) source(packed []byte) (*source, error) {
	hash, err := gitrepo.ParseHash(string(m.Commit))
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, fmt.Errorf("cannot read stored revision %s: %w", m.Commit.Short(), err)
	}
	return &source{Commit: gitrepo.Commit{Hash: hash, Author: m.Author, Email: m.Email, Message: m.Message, Time: m.Time}, Tree: archive}, nil
}

// put stores a revision, unless it is, and removes the oldest beyond maxStored but for those to keep.
func (v vault) put(ctx context.Context, s *source, keep []settings.Commit) error {
	ctx, cancel := context.WithTimeout(ctx, vaultWait)
	defer cancel()
	commit := settings.Commit(s.Commit.Hash.String())
	known, err := v.manifest(ctx, commit)
	if err != nil || known != nil {
		return err
	}
	packed, err := pack(s.Tree)
	if err != nil {
		return fmt.Errorf("cannot store revision %s: %w", commit.Short(), err)
	}
	sum := sha256.Sum256(packed)
	m := manifest{
		Commit: commit, Author: s.Commit.Author, Email: s.Commit.Email, Message: s.Commit.Subject(), Time: s.Commit.Time,
		Stored: time.Now(), Sum: hex.EncodeToString(sum[:]),
	}
	for chunk := range slices.Chunk(packed, chunkBytes) {
		if _, err := v.kv.Put(ctx, chunkKey(commit, m.Chunks), chunk); err != nil {
			return fmt.Errorf("cannot store revision %s: %w", commit.Short(), err)
		}
		m.Chunks++
	}
	data, err := canon.Marshal(m)
	if err == nil {
		_, err = v.kv.Put(ctx, string(commit), data)
	}
	if err != nil {
		return fmt.Errorf("cannot store revision %s: %w", commit.Short(), err)
	}
	return v.prune(ctx, keep)
}

func (v vault) prune(ctx context.Context, keep []settings.Commit) error {
	all, err := v.list(ctx)
	if err != nil {
		return err
	}
	gone, err := v.cutOff(ctx, all)
	if err != nil {
		return err
	}
	for _, m := range all[min(len(all), maxStored):] {
		if !slices.Contains(keep, m.Commit) {
			gone = append(gone, m.Commit)
		}
	}
	for _, commit := range gone {
		key := keyPrefix + string(commit)
		for _, subject := range []string{key, key + ".*"} {
			if err := v.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
				return fmt.Errorf("cannot remove stored revision %s: %w", commit.Short(), err)
			}
		}
	}
	return nil
}

// cutOff are revisions of which parts are stored and none of the manifests is, and nobody is still at it: put has had its
// time twice over, as clocks differ.
func (v vault) cutOff(ctx context.Context, whole []manifest) (commits []settings.Commit, err error) {
	keys, err := v.keys(ctx, "*.0")
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		commit := settings.Commit(strings.TrimSuffix(key, ".0"))
		if slices.ContainsFunc(whole, func(m manifest) bool { return m.Commit == commit }) {
			continue
		}
		first, err := v.kv.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("cannot read stored revision %s: %w", commit.Short(), err)
		}
		if time.Since(first.Created()) > 2*vaultWait {
			commits = append(commits, commit)
		}
	}
	return commits, nil
}

// errTooMuch says that a revision takes more room than one may.
var errTooMuch = fmt.Errorf("its files take more than %d MiB, packed", maxPacked>>20)

// pack makes a zip archive of the files that a revision is compiled from. What is never read has no place in it.
func pack(tree fs.FS) ([]byte, error) {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && name != "top.d" && name != "settings" && !strings.HasPrefix(name, "settings/"):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular() || !utf8.ValidString(name) || path.Ext(name) != ".yaml":
			return nil
		case !strings.Contains(name, "/") && name != "top.yaml" && name != "zester.yaml":
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > strictyaml.MaxSize {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		w, err := archive.Create(name)
		if err == nil {
			_, err = io.Copy(w, bytes.NewReader(data))
		}
		if err == nil && b.Len() > maxPacked {
			err = errTooMuch
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if b.Len() > maxPacked {
		return nil, errTooMuch
	}
	return b.Bytes(), nil
}

// A keepsake is a revision to store, and those that must not be removed for it.
type keepsake struct {
	source *source
	keep   []settings.Commit
}

// keep has a revision stored beside all else; a newer one takes the place of one that has not begun to be.
func (t *term) keep(s *source) {
	k := keepsake{s, t.last.InUse()}
	select {
	case <-t.keepsakes:
	default:
	}
	t.keepsakes <- k
}

// storeKeepsakes stores revisions until ctx ends, each until that has worked or a newer one is to be.
func (t *term) storeKeepsakes(ctx context.Context) error {
	const again = 30 * time.Second
	var k *keepsake
	for {
		var retry <-chan time.Time
		if k != nil {
			retry = time.After(again)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case next := <-t.keepsakes:
			k = &next
		case <-retry:
		}
		err := t.vault.put(ctx, k.source, k.keep)
		if err != nil && ctx.Err() == nil {
			t.r.log.Warn("revision not stored on the bus", "commit", k.source.Commit.Hash, "err", err)
		}
		if err == nil || errors.Is(err, errTooMuch) {
			k = nil
		}
	}
}
