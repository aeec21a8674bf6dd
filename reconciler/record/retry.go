package record

import (
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// CheckRetry returns the rolled-back revision whose commit begins with digits, the newest one if digits is empty, or a
// *[Refusal] if it would not be tried. head is the newest revision, empty while the branch has not been read.
func (r *Record) CheckRetry(digits string, head settings.Commit) (settings.Commit, error) {
	found, err := r.matchSkipped(digits)
	if err != nil {
		return "", err
	}
	const cannot = "cannot retry %s: "
	switch {
	case head == "":
		return "", Refuse(cannot+"this master has not read the branch yet: run zester sync now, then try again",
			found.Short())
	case found != head:
		return "", Refuse(cannot+"the branch has moved to %s, and only its newest commit goes to the fleet",
			found.Short(), head.Short())
	case r.Pinned != nil:
		return "", Refuse(cannot+"%s has pinned %s: run zester sync unpin first", found.Short(), r.Pinned.By,
			r.Pinned.Commit.Short())
	case r.Suspended != nil:
		return "", Refuse(cannot+"%s has paused new commits: run zester sync resume first", found.Short(),
			r.Suspended.By)
	}
	return found, nil
}

// matchSkipped returns the one rolled-back revision whose commit begins with digits, the newest one if digits is empty.
func (r *Record) matchSkipped(digits string) (settings.Commit, error) {
	var found []settings.Commit
	for _, s := range slices.Backward(r.Skipped) {
		if strings.HasPrefix(string(s.Commit), digits) && !slices.Contains(found, s.Commit) {
			found = append(found, s.Commit)
		}
	}
	switch {
	case digits != "" && len(digits) < status.MinRevision:
		return "", Refuse("cannot retry %q: give %d digits of a commit or more", digits, status.MinRevision)
	case len(found) == 0 && digits == "":
		return "", Refuse("cannot retry: no revision was rolled back")
	case len(found) == 0:
		return "", Refuse("cannot retry %.64s: no such revision was rolled back; zester sync history shows which were",
			digits)
	case len(found) > 1 && digits != "":
		return "", Refuse("cannot retry %.64s: %d revisions that were rolled back begin with it; give more digits",
			digits, len(found))
	}
	return found[0], nil
}

// WithoutSkipped returns the record without the note that a revision was rolled back.
func (r Record) WithoutSkipped(commit settings.Commit) Record {
	r.Skipped = slices.DeleteFunc(slices.Clone(r.Skipped), func(s Skipped) bool { return s.Commit == commit })
	return r
}
