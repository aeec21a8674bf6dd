package reconciler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestARemovedTargetWaitsInTheSameAndInTheNextTerm removes a target of one peel of twelve, whose entry another peel keeps.
func TestARemovedTargetWaitsInTheSameAndInTheNextTerm(t *testing.T) {
	files := siteFiles()
	files["top.yaml"] = text("base:\n  '*': [common]\n  'web-*': [web]\n  'db-*': [web]\n")
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) {
			inBubble(t, files, func(b *bench) {
				for _, id := range []target.PeelID{"web-00", "db-00"} {
					b.peel(id, nil)
				}
				for i := range 10 {
					b.peel(target.PeelID(fmt.Sprintf("app-%02d", i)), nil)
				}
				b.start()
				if b.now(); b.entries("web-00") != "abcdw" {
					t.Fatalf("web-00 has %s", b.entries("web-00"))
				}
				if restarted {
					b.stop()
				}
				b.commit("web is left out", map[string]string{"top.yaml": "base:\n  '*': [common]\n  'db-*': [web]\n"})
				if restarted {
					b.start()
				}
				out := b.now()
				if out.Blocked == "" || !strings.Contains(fmt.Sprint(out.Conditions), "everything that it gives them: web-* (peels: 1)") || b.entries("web-00") != "abcdw" {
					t.Errorf("web-00 has %s, %+v", b.entries("web-00"), out)
				}
			})
		})
	}
}
