package report_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A text that is a few bytes longer than what is kept of a part would not get shorter: the mark of a cut takes more.
func TestAPartThatACutWouldNotMakeShorterStaysWhole(t *testing.T) {
	const kept, mark = 64 << 10, 256
	for more, isWhole := range map[int]bool{0: true, mark - 8: true, mark + 8: false} {
		data := strings.Repeat("d", kept+more)
		r := wire.Return{Result: wire.Result{Data: data, Error: strings.Repeat("e", 1<<20)}}
		if _, err := report.FitReturn(&r, 256<<10); err != nil {
			t.Fatal(err)
		}
		if (r.Data == data) != isWhole {
			t.Errorf("data of %d bytes more than are kept: %.60v", more, r.Data)
		}
		if !strings.Contains(r.Error, "… [cut, 1048576 bytes, sha256 ") {
			t.Errorf("the error ends with %s", r.Error[max(0, len(r.Error)-120):])
		}
	}
}
