package record

import (
	"net"
	"net/url"
	"path"
	"strings"
	"time"
)

// A Source names a branch of a repo, and a folder in it, that a fleet follows. A record with another source belongs to
// another fleet. Two spellings of a repo's address are one source: see [NewSource].
type Source struct {
	Repo   string `json:"repo"` // host/path of a URL, or an absolute path; without credentials
	Branch string `json:"branch"`
	Path   string `json:"path,omitempty"` // empty: the root of the repo
}

// NewSource returns the source for a repo as returned by [gitrepo.Repo.URL]. The transport, the user, the default port,
// the query and a final ".git" of a URL do not count, so that a new token, or ssh in place of https, is the same
// source.
func NewSource(repo, branch, dir string) Source {
	s := Source{Repo: repoKey(repo), Branch: branch}
	if dir = path.Clean("/" + dir); dir != "/" {
		s.Path = dir[1:]
	}
	return s
}

// repoKey returns host/path of a URL or of the short form host:path of ssh, and a clean local path.
func repoKey(repo string) string {
	if strings.HasPrefix(repo, "/") {
		return path.Clean(repo)
	}
	host, dir, short := strings.Cut(repo, ":")
	if strings.Contains(repo, "://") {
		u, err := url.Parse(repo)
		if err != nil {
			return ""
		}
		if u.Scheme == "file" {
			return path.Clean("/" + u.Path)
		}
		host, dir = u.Host, u.Path
		if name, port, err := net.SplitHostPort(host); err == nil && port == defaultPort(u.Scheme) {
			host = name
		}
	} else if !short {
		return path.Clean(repo)
	}
	host = strings.ToLower(host[strings.LastIndexByte(host, '@')+1:])
	return host + strings.TrimSuffix(path.Clean("/"+dir), ".git")
}

func defaultPort(scheme string) string {
	return map[string]string{"http": "80", "https": "443", "ssh": "22"}[strings.ToLower(scheme)]
}

// String returns the source in the form of messages and [Record.Adopted]: "git.example.com/fleet, branch main, path
// prod".
func (s Source) String() string {
	text := s.Repo + ", branch " + s.Branch
	if s.Path != "" {
		text += ", path " + s.Path
	}
	return text
}

// CheckSource returns a *[Refusal] if the record has another source than own, the source of this master. The record of
// an earlier version names no source and fits any.
func (r *Record) CheckSource(own Source) error {
	if r.Source == own || r.Source == (Source{}) {
		return nil
	}
	return Refuse(
		"the fleet follows %.300s, and this master follows %.300s: nothing is published; "+
			"correct the configuration of the master, or take the fleet over with zester sync adopt",
		r.Source, own,
	)
}

// Adopted returns the record with the source to, or a *[Refusal]. from and to are the sources that the person saw, as
// returned by [Source.String]; own is the source of this master. No revision is in force afterwards, as the same commit
// may hold other files at another path: peels keep their settings, and the first revision of the new source waits for
// approval. A rollout, a pin, approvals and the list of revisions that were rolled back are dropped; a pause and the
// limits stay.
func (r Record) Adopted(from, to string, own Source) (Record, error) {
	switch {
	case r.Source == own || r.Source == (Source{}):
		return r, Refuse("cannot adopt: the fleet follows %.300s already", own)
	case r.Source.String() != from:
		return r, Refuse("cannot adopt: the fleet follows %.300s, and not %.300s", r.Source, from)
	case own.String() != to:
		return r, Refuse("cannot adopt: the master that answers follows %.300s, and not %.300s", own, to)
	}
	r = r.WithoutApproval()
	r.Source = own
	r.Commit = ""
	r.Followed = ""
	r.Done = false
	r.Since = time.Time{}
	r.Rollout, r.Pinned, r.Skipped = nil, nil, nil
	return r, nil
}

// IsAdopted reports whether all settings of peels come from another source: see [Record.Adopted].
func (r *Record) IsAdopted() bool { return r.Commit == "" && r.Generation > 0 }
