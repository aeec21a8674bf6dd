package why

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestASourceHasItsTime: a source that does not answer, such as a peel, is left after a time that the answer names.
func TestASourceHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, _ *Found) error {
			<-ctx.Done()
			return ctx.Err()
		}
		var f Found
		began := time.Now()
		new(Collector).each(t.Context(), &f, map[Source]func(context.Context, *Found) error{SourcePeel: silent, SourceJobs: silent})
		const late = "not read within 2.5s: context deadline exceeded"
		want := []Unread{{SourcePeel, late}, {SourceJobs, late}}
		if took := time.Since(began); took != readWait || !slices.Equal(f.Unread, want) {
			t.Errorf("after %v: %q", took, f.Unread)
		}
	})
}
