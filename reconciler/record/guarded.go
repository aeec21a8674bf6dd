package record

import (
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Judged says what of the documents of a revision in force the guard has judged with it.
type Judged struct {
	// Former is the generation of the newest document when the revision was put in force. Documents up to it were
	// judged with it, also where they have the same commit: the fleet may have been adopted with another path of the
	// repo.
	Former uint64 `json:"former,omitempty"`
	// Guarded is nil once every document of the revision was written.
	Guarded *Guarded `json:"guarded,omitempty"`
}

// Guarded are the settings that the guard has judged with a revision: those that it gives to the peels that it changes,
// for their facts at that time. What newer facts make of the revision is not in it.
type Guarded struct {
	Settings Marks `json:"settings,omitempty"` // see [MarkSettings]
}

// Has reports whether the guard has judged the settings of a peel. If g is nil, a person chose the revision or an
// earlier version wrote the record, and all settings count as judged.
func (g *Guarded) Has(id target.PeelID, digest settings.Digest) bool {
	return g == nil || g.Settings.Has(MarkSettings(id, digest))
}

// MarkSettings returns the mark of the settings of a peel.
func MarkSettings(id target.PeelID, digest settings.Digest) Mark {
	return MarkError(id, string(digest))
}
