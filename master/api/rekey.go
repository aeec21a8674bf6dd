package api

import (
	"github.com/seed-c01c3da5/zester/settings/target"
)

// PeelKey names a peel and its waiting sealing key.
type PeelKey struct {
	Peel target.PeelID `json:"peel"`
	Key  string        `json:"key"`
}
