package record

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Place returns the position of a peel in the order of waves: the SHA-256 of its ID in hex, compared as a string. It
// depends on the ID alone, so that the same peels come first with every revision; and it is unlike the order of IDs, so
// that the first peels are of several kinds.
func Place(id target.PeelID) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// Reaches reports whether a peel is to have the revision by now.
func (r *Rollout) Reaches(id target.PeelID) bool { return Place(id) <= r.Reach }
