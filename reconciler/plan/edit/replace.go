package edit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Text returns the file of an entry as it is. The error is [ErrByHand] for an encrypted file.
func (r *Repo) Text(e *plan.DeclaredEntry) ([]byte, error) {
	text, err := fs.ReadFile(r.fs, e.Pos.File)
	if err != nil {
		return nil, err
	}
	n, err := strictyaml.Parse(e.Pos.File, text)
	if err != nil {
		return nil, err
	}
	if n.Get("sops") != nil {
		return nil, fmt.Errorf("%w: %s is encrypted, so sops has to write it", ErrByHand, e.Pos.File)
	}
	return text, nil
}

// Replace returns the file of an entry with a new text. Only entries may differ: not other settings of the file, not
// entries of other files, and not the field api. The entry has to stay.
func (r *Repo) Replace(e *plan.DeclaredEntry, text []byte) (map[string][]byte, error) {
	was, err := r.Text(e)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{e.Pos.File: text}
	after, err := Read(r.With(files))
	if err == nil {
		err = otherSettings(e.Pos.File, was, text)
	}
	if err != nil {
		return nil, err
	}
	made := map[string]schedule.Made{}
	for _, o := range r.Entries {
		if o.Pos.File == e.Pos.File {
			made[o.Entry.Name] = o.Entry.API
		}
	}
	stays := false
	for _, o := range after.Entries {
		if o.Pos.File != e.Pos.File {
			continue
		}
		stays = stays || o.Entry.Name == e.Entry.Name
		if o.Entry.API != made[o.Entry.Name] {
			return nil, fmt.Errorf("%w: %s: the field api of %s is written by masters alone", ErrInvalid, o.Pos,
				o.Entry.Name)
		}
	}
	if !stays {
		return nil, fmt.Errorf("%w: %s would have no entry %s: remove it instead", ErrInvalid, e.Pos.File, e.Entry.Name)
	}
	if !maps.Equal(r.elsewhere(e.Pos.File), after.elsewhere(e.Pos.File)) {
		return nil, fmt.Errorf("%w: %s: entries of other files would change", ErrByHand, e.Pos.File)
	}
	return files, nil
}

// otherSettings returns an error if two texts of a file differ in a setting that is not a schedule.
func otherSettings(file string, was, now []byte) error {
	old, err := strictyaml.Parse(file, was)
	latest, failed := strictyaml.Parse(file, now)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	for _, n := range []*strictyaml.Node{latest, old} {
		for _, p := range n.Map {
			a, b := old.Get(p.Key), latest.Get(p.Key)
			if p.Key != "schedule" && (a == nil || b == nil || !a.Equal(b)) {
				return fmt.Errorf("%w: %s: %s would change: only entries below schedule are edited here", ErrInvalid,
					p.KeyPos, p.Key)
			}
		}
	}
	return nil
}

// elsewhere returns the hashes of the entries of other files by place.
func (r *Repo) elsewhere(file string) map[[2]string]string {
	all := map[[2]string]string{}
	for _, o := range r.Entries {
		if o.Pos.File != file {
			all[[2]string{o.Pos.File, o.Entry.Name}] = o.Entry.Hash()
		}
	}
	return all
}

// Changed returns the entries of after that are new or differ from those of r.
func (r *Repo) Changed(after *Repo) (all []*plan.DeclaredEntry) {
	was := r.elsewhere("")
	for _, o := range after.Entries {
		if was[[2]string{o.Pos.File, o.Entry.Name}] != o.Entry.Hash() {
			all = append(all, o)
		}
	}
	return all
}
