package zoneinfo

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write zones.gz from the zones of this Go release")

// zonesOfGo returns the zones that come with the Go release that runs the test.
func zonesOfGo(t *testing.T) map[string][]byte {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()

	zones := map[string][]byte{}
	for _, f := range archive.File {
		if f.FileInfo().IsDir() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		zones[f.Name] = data
	}
	return zones
}

// pack writes zones in the form that unpack reads.
func pack(t *testing.T, zones map[string][]byte) []byte {
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		data := string(zones[name])
		names[data] = append(names[data], name)
	}

	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w.Comment = runtime.Version()
	sorted := slices.Sorted(maps.Keys(names))
	for _, data := range sorted {
		fmt.Fprintln(w, len(data), strings.Join(names[data], " "))
	}
	fmt.Fprintln(w)
	for _, data := range sorted {
		io.WriteString(w, data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The zones of another Go release may differ in their data: a country has changed its rules.
func TestZonesAreThoseOfGo(t *testing.T) {
	want := zonesOfGo(t)
	if *update {
		if err := os.WriteFile("zones.gz", pack(t, want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}

	header, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	got, err := unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range want {
		_, known := got[name]
		switch {
		case !known:
			t.Errorf("the zone %s is missing: go test ./settings/schedule/zoneinfo -update", name)
		case header.Comment == runtime.Version() && got[name] != string(data):
			t.Errorf("the zone %s differs from that of Go: go test ./settings/schedule/zoneinfo -update", name)
		}
	}
}

func TestBuiltInZones(t *testing.T) {
	for name, data := range builtIn() {
		if _, err := time.LoadLocationFromTZData(name, []byte(data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load("Europe/Nowhere"); err == nil {
		t.Error("Europe/Nowhere is a zone")
	}
}

// inLondon is the name of an environment variable: if it is set, the test prints noon in London in July.
const inLondon = "ZONEINFO_TEST_LONDON"

func TestAHostWithoutZonesKnowsThem(t *testing.T) {
	if os.Getenv(inLondon) != "" {
		london, err := Load("Europe/London")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).In(london))
		return
	}

	const hide = `mkdir -p /usr/share/zoneinfo; mount -t tmpfs none /usr/share/zoneinfo && exec "$0" -test.run "$1"`
	cmd := exec.Command("unshare", "--mount", "--map-root-user", "sh", "-c", hide, os.Args[0], "^"+t.Name()+"$")
	cmd.Env = []string{inLondon + "=1", "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "unshare:") {
		t.Skipf("this machine has no mount namespaces for tests: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "2026-07-01 13:00:00 +0100 BST") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestDamagedZonesAreAnError(t *testing.T) {
	whole := pack(t, map[string][]byte{"A/B": []byte("data"), "C": []byte("data"), "D": []byte("other")})
	zones, err := unpack(whole)
	if err != nil || len(zones) != 3 || zones["C"] != "data" || zones["D"] != "other" {
		t.Fatalf("got %q, %v", zones, err)
	}
	for n := range whole {
		if _, err := unpack(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(whole))
		}
	}
}
