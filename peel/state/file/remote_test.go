//go:build linux

package file

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/download/downloadtest"
	"github.com/seed-c01c3da5/zester/peel/state/host"
)

func TestMain(m *testing.M) { os.Exit(downloadtest.Main(m)) }

func TestAFileFromHTTPS(t *testing.T) {
	dir := temp(t)
	served := strings.Repeat("x", MaxFile+1) // more than a file of the config repo may have
	sum := sha256.Sum256([]byte(served))
	requests := 0
	downloadtest.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = w.Write([]byte(served))
	})
	args := "path: " + dir + "/f, source: '" + downloadtest.Server.URL + "/f', sha256: " + hex.EncodeToString(sum[:])
	plan := planOf(t, "f: {file.managed: {"+args+", mode: '0755'}}", noFiles)
	wants(t, apply(t, plan), "create f")
	wants(t, apply(t, plan))
	must(t, os.WriteFile(dir+"/f", []byte("by hand"), 0o755))
	served = "something else"
	steps, err := plan(host.New())
	must(t, err)
	if err := steps[0].Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "the state wants") {
		t.Error(err)
	}
	if got := get(t, dir+"/f"); got != "by hand" {
		t.Errorf("after a wrong hash the file has %d bytes", len(got))
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("files are left: %v", names)
	}
	if requests != 2 {
		t.Errorf("%d requests", requests)
	}
	must(t, os.WriteFile(dir+"/f", []byte(strings.Repeat("x", MaxFile+1)), 0o600))
	must(t, os.Chmod(dir+"/f", 0o600))
	wants(t, apply(t, plan), "mode f") // without a request
}
