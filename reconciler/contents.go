package reconciler

import (
	"context"
	"maps"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
)

// publishContents stores the contents that the opened revisions name and the bus lacks, before the documents that name
// them. The caller holds mu.
func (w *Worker) publishContents(ctx context.Context) error {
	for _, c := range w.opened {
		if _, err := w.o.Contents.Publish(ctx, c.Plan.Contents(), c.Plan.Sealed); err != nil {
			return err
		}
	}
	return nil
}

// SweepContents removes contents that nothing names for a day, and returns their number. Then it stores those of the
// opened revisions that the bus has lost. It may be called beside Do.
func (w *Worker) SweepContents(ctx context.Context) (removed int, err error) {
	removed, err = w.o.Contents.Sweep(ctx, w.namedContents)
	if err != nil {
		return removed, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return removed, w.publishContents(ctx)
}

// namedContents returns the blobs that documents, opened revisions and stored revisions name.
func (w *Worker) namedContents(ctx context.Context) (map[string]bool, error) {
	stored, err := w.o.Archive.Blobs(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var plans []*plan.Plan
	for _, c := range w.opened {
		plans = append(plans, c.Plan)
		for _, f := range c.Plan.Contents() {
			stored[f.Blob] = true
		}
	}
	named, err := w.o.Published.Blobs(ctx, plans...)
	maps.Copy(stored, named)
	return stored, err
}
