package plan_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
)

// The size of a document is checked for authors of a certain length, so that a document has no longer ones.
func TestADocumentHasNoLongerAuthorsThanItsSizeIsCheckedFor(t *testing.T) {
	long := strings.Repeat("é", 300)
	origins := map[string]settings.Origin{"entry": {Author: long}, settings.StateOrigin + "state": {Author: long}, "other": {Author: "Ada <ada@example.com>"}}
	doc := (&plan.Effective{}).Document("web-01", "", 1, origins)
	entry, state := doc.Origins["entry"].Author, doc.Origins[settings.StateOrigin+"state"].Author
	if len(entry) > plan.MaxAuthor || len(entry) < plan.MaxAuthor-8 || len(state) > 64 || len(state) < 56 || !strings.HasSuffix(state, "é…") {
		t.Errorf("%d and %d bytes: %s", len(entry), len(state), state)
	}
	if doc.Origins["other"].Author != "Ada <ada@example.com>" || origins["entry"].Author != long {
		t.Error("another origin was changed")
	}
}
