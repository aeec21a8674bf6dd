// Package backup copies all that a fleet cannot make again into one file, and restores it elsewhere: the keys from
// the data directory of a master, and the streams and buckets of its bus. Call [Write] beside a running master,
// [Check] to read a file to its end, and [Restore] with an empty data directory.
//
// A file is a tar archive. Its first member is manifest.json, a [Manifest]; the others follow in the order of the
// manifest, with the sizes and hashes that it names. Encryption is the caller's.
//
// Guarantees: a file that was cut off or changed is refused before anything is restored; nothing that exists is
// replaced; each stream is a snapshot at one moment. A job that ends during a backup is in it once at least, because
// live jobs are copied before ended ones, and these before their returns.
//
// Known gaps: the streams are of different moments, which lie as far apart as the backup takes. The files that the
// configuration of the master names are elsewhere, and not contained.
package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// format is the version of the form of the file. A higher one is refused.
const format = 1

const (
	manifestName = "manifest.json"
	filesFolder  = "data/"    // of the files of the data directory
	streamFolder = "streams/" // of the snapshots

	maxManifest = 16 << 20 // bytes
	maxFile     = 16 << 20 // bytes of a file of the data directory
)

// folders are the folders of the data directory that are contained.
var folders = []string{"auth", "tls"}

// A Manifest says what a backup contains.
type Manifest struct {
	Format   int       `json:"format"`
	Version  string    `json:"version"`  // of the program that wrote it
	Protocol int       `json:"protocol"` // of the messages in the streams
	Time     time.Time `json:"time"`     // at which it was begun
	Files    []Part    `json:"files"`    // of the data directory
	Streams  []Stream  `json:"streams"`
	Lacks    []string  `json:"lacks,omitempty"` // paths of files that the configuration of the master names
}

// A Part is a member of the archive.
type Part struct {
	Name   string `json:"name"` // of a file: its path below the data directory; of a stream: its name
	Size   int64  `json:"size"` // in bytes
	SHA256 string `json:"sha256"`
}

// A Stream is a stream or bucket with its snapshot.
type Stream struct {
	Part
	Config   jetstream.StreamConfig `json:"config"`
	State    json.RawMessage        `json:"state"` // as the server wants it back
	Messages uint64                 `json:"messages"`
	Last     uint64                 `json:"last"` // sequence of the newest message
}

// Messages returns the number of messages in all streams.
func (m Manifest) Messages() (n uint64) {
	for _, s := range m.Streams {
		n += s.Messages
	}
	return n
}

// members returns the members of the archive that follow the manifest.
func (m Manifest) members() []Part {
	var all []Part
	for _, f := range m.Files {
		f.Name = filesFolder + f.Name
		all = append(all, f)
	}
	for _, s := range m.Streams {
		s.Name = streamFolder + s.Name
		all = append(all, s.Part)
	}
	return all
}

// readManifest reads and checks the manifest.
func readManifest(r io.Reader) (m Manifest, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return m, err
	}
	if len(text) > maxManifest {
		return m, fmt.Errorf("its %s has more than %d MiB", manifestName, maxManifest>>20)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("its %s: %w", manifestName, err)
	}
	return m, m.check()
}

func (m Manifest) check() error {
	if m.Format > format || m.Protocol > wire.Version {
		return fmt.Errorf("it was written by zester %.40q, which is newer than this program: "+
			"use that version", m.Version)
	}
	if m.Format < 1 || len(m.Files) == 0 {
		return fmt.Errorf("its %s is incomplete", manifestName)
	}
	for _, f := range m.Files {
		folder, _, below := strings.Cut(f.Name, "/")
		if !below || path.Clean(f.Name) != f.Name || !slices.Contains(folders, folder) {
			return fmt.Errorf("its %s names the file %.80q", manifestName, f.Name)
		}
		if f.Size < 0 || f.Size > maxFile {
			return fmt.Errorf("its file %s has %d bytes", f.Name, f.Size)
		}
	}
	for _, s := range m.Streams {
		if s.Name == "" || s.Name != s.Config.Name || strings.ContainsAny(s.Name, `./\*> `) {
			return fmt.Errorf("its %s names the stream %.80q", manifestName, s.Name)
		}
	}
	return nil
}

// A hashed counts and hashes what is written to it.
type hashed struct {
	size int64
	sum  hash.Hash
}

func newHashed() *hashed { return &hashed{sum: sha256.New()} }

func (h *hashed) Write(p []byte) (int, error) {
	h.size += int64(len(p))
	return h.sum.Write(p)
}

// part returns what was written as the part with a name.
func (h *hashed) part(name string) Part {
	return Part{Name: name, Size: h.size, SHA256: hex.EncodeToString(h.sum.Sum(nil))}
}
