package console

import (
	"strings"
	"testing"
)

// Bounds of what a browser loads once, in bytes.
const (
	maxScript = 16 << 10
	maxStyle  = 48 << 10 // with icons
)

func TestAssetsAreSmall(t *testing.T) {
	all := assets()
	if n := len(all["console.js"].content); n == 0 || n > maxScript {
		t.Errorf("the script has %d bytes, and at most %d may be", n, maxScript)
	}
	if n := len(all["console.css"].content) + len(all["icons.svg"].content); n == 0 || n > maxStyle {
		t.Errorf("style and icons have %d bytes, and at most %d may be", n, maxStyle)
	}
	for name, a := range all {
		if strings.Contains(string(a.content), "http://") && !strings.Contains(string(a.content), "http://www.w3.org/2000/svg") {
			t.Errorf("%s loads something from elsewhere", name)
		}
	}
}
