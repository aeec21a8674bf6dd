package publish

import (
	"context"
	"fmt"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Blobs returns the blobs of the contents that the stored documents name. It reads only documents whose settings are in
// none of the plans.
func (p *Published) Blobs(ctx context.Context, plans ...*plan.Plan) (map[string]bool, error) {
	known := map[settings.Digest]*plan.Effective{}
	for _, one := range plans {
		for e := range one.Effectives() {
			known[e.Digest] = e
		}
	}
	holders := map[settings.Digest]target.PeelID{}
	for wire, held := range p.heads {
		if held.Err != nil {
			return nil, fmt.Errorf("cannot find out which contents the document of %s names: %w", wire, held.Err)
		}
		if held.Peel != "" {
			holders[held.Digest] = held.Peel
		}
	}
	blobs := map[string]bool{}
	for digest, holder := range holders {
		if e, ok := known[digest]; ok {
			for _, f := range e.Compiled.Files {
				blobs[f.Blob] = true
			}
			continue
		}
		if err := p.addBlobs(ctx, holder, blobs); err != nil {
			return nil, err
		}
	}
	return blobs, nil
}

// addBlobs adds the blobs that the stored document of a peel names. Keys and hashes of secret contents are masked in
// it, blobs are not.
func (p *Published) addBlobs(ctx context.Context, id target.PeelID, blobs map[string]bool) error {
	doc, _, err := p.store.Get(ctx, id)
	if err != nil || doc == nil {
		return err
	}
	var values struct {
		States struct {
			Files map[string]struct {
				Blob string `json:"blob"`
			} `json:"files"`
		} `json:"_states"`
	}
	if err := canon.Unmarshal(doc.Settings, &values); err != nil {
		return fmt.Errorf("cannot read the settings of %s: %w", id, err)
	}
	for _, f := range values.States.Files {
		blobs[f.Blob] = true
	}
	return nil
}
