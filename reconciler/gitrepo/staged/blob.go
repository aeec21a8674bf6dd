package staged

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// A blob is the content that a file has in the next commit.
type blob struct {
	name       string
	attributes []attributeRule
	link       bool // the content is the target of a symbolic link
	raw        bool // nothing is converted

	hash    [20]byte
	size    int64
	content []byte // nil if it is not held in memory
	unknown error  // an *UnknownError, with which hash is made of the name
}

// Size returns the size in bytes of a blob of Entries. It reports false for one that only the index has.
func (f *Files) Size(hash [20]byte) (int64, bool) {
	b := f.blobs[hash]
	if b == nil {
		return 0, false
	}
	return b.size, true
}

// Content returns a blob of Entries. It reports false for one that only the index has. The error is an [*UnknownError], or
// one of reading a file that has changed since Read.
func (f *Files) Content(hash [20]byte) (data []byte, ok bool, err error) {
	b := f.blobs[hash]
	switch {
	case b == nil:
		return nil, false, nil
	case b.unknown != nil:
		return nil, true, b.unknown
	case b.content != nil:
		return bytes.Clone(b.content), true, nil
	}
	again := &blob{name: b.name, attributes: b.attributes, link: b.link, raw: b.raw}
	if _, err := f.load(again, f.index[b.name].Entry); err != nil {
		return nil, true, err
	}
	if again.hash != hash {
		return nil, true, fmt.Errorf("cannot read %s: it changed at the same time", b.name)
	}
	return again.content, true, nil
}

// load reads a blob and returns the mode of its file.
func (f *Files) load(b *blob, tracked Entry) (mode fs.FileMode, err error) {
	if b.link {
		target, err := f.root.Readlink(b.name)
		b.set([]byte(target))
		return 0, err
	}
	in, err := f.root.Open(b.name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() > maxContent {
		return f.mode(info, tracked), f.loadLarge(b, in, info.Size())
	}
	data, err := io.ReadAll(io.LimitReader(in, maxContent))
	if err != nil {
		return 0, err
	}
	if b.set(data); b.raw || b.hash == tracked.Hash {
		return f.mode(info, tracked), nil
	}
	data, err = f.convert(b.attributes, b.name, data)
	if unknown, ok := errors.AsType[*UnknownError](err); ok {
		b.unknown, b.hash = unknown, sha1.Sum([]byte("unknown "+b.name))
		return f.mode(info, tracked), nil
	}
	b.set(data)
	return f.mode(info, tracked), err
}

// set makes data the content of b.
func (b *blob) set(data []byte) {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(data))
	_, _ = h.Write(data)
	b.hash, b.size, b.content = [20]byte(h.Sum(nil)), int64(len(data)), data
}

// loadLarge hashes a file that is too large to be read. Its ends of lines are not converted.
func (f *Files) loadLarge(b *blob, in io.Reader, size int64) error {
	if attribute(b.attributes, b.name, "filter") == "lfs" && f.filters("lfs") {
		sum := sha256.New()
		if _, err := io.Copy(sum, in); err != nil {
			return err
		}
		b.set(fmt.Appendf(nil, "%soid sha256:%x\nsize %d\n", lfsPointer, sum.Sum(nil), size))
		return nil
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", size)
	n, err := io.Copy(h, in)
	if err == nil && n != size {
		err = fmt.Errorf("cannot read %s: it changed at the same time", b.name)
	}
	b.hash, b.size = [20]byte(h.Sum(nil)), size
	return err
}

// mode returns the mode that a regular file has in the commit.
func (f *Files) mode(info fs.FileInfo, tracked Entry) fs.FileMode {
	executable := info.Mode()&0o100 != 0
	if f.config.value("core.filemode") == "false" {
		executable = tracked.Mode == 0o755
	}
	if executable {
		return 0o755
	}
	return 0o644
}
