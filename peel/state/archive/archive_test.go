//go:build linux

package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/download/downloadtest"
	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

func TestMain(m *testing.M) { os.Exit(downloadtest.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tarOf returns a tar archive. The size of a header is that of its content.
func tarOf(t testing.TB, content string, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipOf(t testing.TB, content string, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, h := range headers {
		f := &zip.FileHeader{Name: h.Name, Method: zip.Deflate}
		f.SetMode(fs.FileMode(h.Mode).Perm())
		text := content
		switch h.Typeflag {
		case tar.TypeDir:
			f.Name = h.Name + "/"
			f.SetMode(fs.FileMode(h.Mode).Perm() | fs.ModeDir)
			text = ""
		case tar.TypeSymlink:
			f.SetMode(0o777 | fs.ModeSymlink)
			text = h.Linkname
		case tar.TypeFifo:
			f.SetMode(0o644 | fs.ModeNamedPipe)
		}
		to, err := w.CreateHeader(f)
		if err == nil {
			_, err = to.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A target is a directory to extract into, and the archives of the config repo.
type target struct {
	t     *testing.T
	dir   string
	store Store
	files map[string][]byte

	claims Claims
}

func newTarget(t *testing.T) *target {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return &target{t: t, dir: dir, store: Store{Dir: dir + "/.archives"}, files: map[string][]byte{}}
}

func (x *target) plan(w *host.World, a state.ArchiveExtracted) ([]host.Step, error) {
	if a.Path == "" {
		a.Path = x.dir + "/app"
	}
	return x.store.Extracted(x.t.Context(), w, &a, file.Inputs{
		Source: func(_ context.Context, name string) (file.Content, error) {
			return file.Content{Data: x.files[name]}, nil
		},
	}, x.claims)
}

// apply extracts and returns what was done.
func (x *target) apply(a state.ArchiveExtracted) (done []string, err error) {
	x.t.Helper()
	steps, err := x.plan(host.New(), a)
	must(x.t, err)
	for _, s := range steps {
		if err := s.Apply(x.t.Context()); err != nil {
			return done, err
		}
		done = append(done, s.Do)
	}
	return done, nil
}

// wants applies the state and compares what was done with a list of words.
func (x *target) wants(a state.ArchiveExtracted, want string) {
	x.t.Helper()
	done, err := x.apply(a)
	must(x.t, err)
	if got := strings.Join(done, " "); got != want {
		x.t.Errorf("%q was done, want %q", got, want)
	}
}

var release = []tar.Header{
	{Name: "app-1.0", Typeflag: tar.TypeDir, Mode: 0o777},
	{Name: "app-1.0/bin/run", Typeflag: tar.TypeReg, Mode: 0o4777},
	{Name: "app-1.0/lib/l.so.1", Typeflag: tar.TypeReg, Mode: 0o644},
	{Name: "app-1.0/lib/l.so", Typeflag: tar.TypeSymlink, Linkname: "l.so.1"},
	{Name: "app-1.0/run", Typeflag: tar.TypeSymlink, Linkname: "bin/run"},
}

func TestAnArchiveIsExtractedOnce(t *testing.T) {
	for format, data := range map[string][]byte{
		"tar":    tarOf(t, "one", release...),
		"tar.gz": gzipOf(t, tarOf(t, "one", release...)),
		"zip":    zipOf(t, "one", release...),
	} {
		x := newTarget(t)
		x.files["files/app."+format] = data
		a := state.ArchiveExtracted{Source: "files/app." + format, Strip: 1}
		x.wants(a, "create extract")
		x.wants(a, "")
		content, err := os.ReadFile(x.dir + "/app/run")
		if err != nil || string(content) != "one" {
			t.Errorf("%s: %q, %v", format, content, err)
		}
		info, err := os.Stat(x.dir + "/app/bin/run")
		must(t, err)
		if info.Mode() != 0o755 {
			t.Errorf("%s: the mode is %v", format, info.Mode())
		}

		for what, change := range map[string]func() error{
			"a file with another content": func() error { return os.WriteFile(x.dir+"/app/bin/run", []byte("two"), 0o755) },
			"a missing file":              func() error { return os.Remove(x.dir + "/app/lib/l.so.1") },
			"another mode":                func() error { return os.Chmod(x.dir+"/app/bin/run", 0o700) },
			"another mode of a directory": func() error { return os.Chmod(x.dir+"/app/lib", 0o700) },
			"another target":              func() error { return errors.Join(os.Remove(x.dir+"/app/run"), os.Symlink("lib", x.dir+"/app/run")) },
			"a missing directory":         func() error { return os.RemoveAll(x.dir + "/app/lib") },
		} {
			must(t, change())
			done, err := x.apply(a)
			if err != nil || len(done) != 1 {
				t.Errorf("%s: %s: %v, %v", format, what, done, err)
			}
			x.wants(a, "")
		}
		must(t, os.WriteFile(x.dir+"/app/own", nil, 0o600)) // a file that the archive does not have stays
		x.wants(a, "")

		x.files["files/app."+format] = tarOf(t, "two", release...)
		if format == "zip" {
			x.files["files/app.zip"] = zipOf(t, "two", release...)
		} else if format == "tar.gz" {
			x.files["files/app.tar.gz"] = gzipOf(t, tarOf(t, "two", release...))
		}
		x.wants(a, "extract")
		if content, err := os.ReadFile(x.dir + "/app/run"); err != nil || string(content) != "two" {
			t.Errorf("%s: %q, %v", format, content, err)
		}
	}
}

func TestHardLinksBecomeFiles(t *testing.T) {
	x := newTarget(t)
	x.files["files/a.tar"] = tarOf(t, "one", tar.Header{Name: "a", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "b", Typeflag: tar.TypeLink, Linkname: "a", Mode: 0o600})
	a := state.ArchiveExtracted{Source: "files/a.tar"}
	x.wants(a, "create extract")
	x.wants(a, "")
	if content, err := os.ReadFile(x.dir + "/app/b"); err != nil || string(content) != "one" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestArchivesThatLeadOutWriteNothing(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644} }
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	for what, headers := range map[string][]tar.Header{
		"a name above":               {file("../x")},
		"a name above, below":        {file("a/../../x")},
		"an absolute name":           {file("/x")},
		"a backslash":                {file(`..\x`)},
		"an absolute link":           {link("l", "/etc")},
		"a link above":               {link("a/l", "../../etc")},
		"a link over a link":         {link("b", "."), link("a", "b/../x")},
		"a link that goes back":      {link("l", "a/..")},
		"a file below a link":        {link("l", "a"), file("l/x")},
		"a file below a link before": {file("l/x"), link("l", "a")},
		"a file twice":               {file("x"), file("x")},
		"a file below a file":        {file("x"), file("x/y")},
		"a pipe":                     {{Name: "p", Typeflag: tar.TypeFifo, Mode: 0o644}},
	} {
		for format, data := range map[string][]byte{"tar": tarOf(t, "one", headers...), "zip": zipOf(t, "one", headers...)} {
			x := newTarget(t)
			x.files["files/a."+format] = data
			_, err := x.apply(state.ArchiveExtracted{Source: "files/a." + format})
			if err == nil || !strings.Contains(err.Error(), "nothing was extracted") {
				t.Errorf("%s of %s: %v", what, format, err)
			}
			if names, _ := os.ReadDir(x.dir + "/app"); len(names) > 0 {
				t.Errorf("%s of %s: the directory has %v", what, format, names)
			}
			if _, err := os.Lstat(x.dir + "/x"); err == nil {
				t.Errorf("%s of %s: a file is outside", what, format)
			}
		}
	}
	for what, header := range map[string]tar.Header{
		"a device":                   {Name: "d", Typeflag: tar.TypeBlock},
		"a hard link out":            {Name: "h", Typeflag: tar.TypeLink, Linkname: "../x"},
		"a hard link to what is not": {Name: "h", Typeflag: tar.TypeLink, Linkname: "x"},
	} {
		x := newTarget(t)
		x.files["files/a.tar"] = tarOf(t, "", header)
		if _, err := x.apply(state.ArchiveExtracted{Source: "files/a.tar"}); err == nil {
			t.Errorf("%s is extracted", what)
		}
	}
}

func TestAnArchiveThatGrowsTooMuchIsRefused(t *testing.T) {
	zeros := strings.Repeat("\x00", freeBytes+10<<20)
	header := tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644}
	for name, data := range map[string][]byte{"a.tgz": gzipOf(t, tarOf(t, zeros, header)), "a.zip": zipOf(t, zeros, header)} {
		if len(data)*maxRatio > 10<<20+freeBytes {
			data = data[:0] // no compression worth the name
		}
		s := &source{data: bytes.NewReader(data), size: 1, format: filepath.Ext(name)}
		s.size = int64(len(data))
		left := s.size * maxRatio
		if left > 10<<20 {
			t.Skipf("%s has %d bytes", name, len(data))
		}
		if _, err := list(s); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPredictedArchiveIsTheAppliedOne(t *testing.T) {
	x := newTarget(t)
	x.files["files/a.tar"] = tarOf(t, "one", release...)
	a := state.ArchiveExtracted{Source: "files/a.tar", Path: x.dir + "/app"}
	w := host.New()
	steps, err := x.plan(w, a)
	must(t, err)
	var predicted []string
	for _, s := range steps {
		predicted = append(predicted, fmt.Sprintf("%+v", s.Change))
		s.Predict(w)
	}
	if _, err := w.Stat(x.dir + "/app/bin/run"); err == nil {
		t.Error("a test knows what the archive brings")
	}
	if _, err := os.Stat(x.dir + "/app"); err == nil {
		t.Error("a test made the directory")
	}
	again, err := x.plan(host.New(), a)
	must(t, err)
	for i, s := range again {
		must(t, s.Apply(t.Context()))
		if got := fmt.Sprintf("%+v", s.Change); got != predicted[i] {
			t.Errorf("%s was predicted, %s was done", predicted[i], got)
		}
	}
}

func TestAnArchiveOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	x := newTarget(t)
	must(t, os.Chmod(x.dir, 0o755))
	x.files["files/a.tar"] = tarOf(t, "one", release...)
	a := state.ArchiveExtracted{Source: "files/a.tar", User: "nobody", Group: "nogroup"}
	x.wants(a, "create extract")
	x.wants(a, "")
	x.wants(state.ArchiveExtracted{Source: "files/a.tar"}, "extract") // they are root's without a user
	x.wants(state.ArchiveExtracted{Source: "files/a.tar"}, "")
}

// The owner of an archive changes, with directories in directories that have files.
func TestAnArchiveGetsAnotherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	x := newTarget(t)
	must(t, os.Chmod(x.dir, 0o755))
	x.files["files/a.tar"] = tarOf(t, "one", release...)
	x.wants(state.ArchiveExtracted{Source: "files/a.tar"}, "create extract")
	for _, a := range []state.ArchiveExtracted{
		{Source: "files/a.tar", User: "nobody"},
		{Source: "files/a.tar", User: "root"},
		{Source: "files/a.tar", User: "nobody", Group: "nogroup"},
		{Source: "files/a.tar", User: "daemon", Group: "daemon"},
	} {
		x.wants(a, "extract owner")
		x.wants(a, "")
	}
}

func TestAnArchiveFromHTTPS(t *testing.T) {
	x := newTarget(t)
	data := zipOf(t, "one", release...)
	served := data
	downloadtest.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(served)
	})
	sum := sha256.Sum256(data)
	a := state.ArchiveExtracted{
		Source: downloadtest.Server.URL + "/app.zip?token=geheim", SHA256: hex.EncodeToString(sum[:]), Strip: 1,
	}
	served = []byte("another")
	_, err := x.apply(a)
	if err == nil || !strings.Contains(err.Error(), "its SHA-256 is") || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	served = data
	x.wants(a, "extract")
	served = nil
	x.wants(a, "") // nothing is downloaded again
	names, err := os.ReadDir(x.store.Dir)
	if err != nil || len(names) != 1 {
		t.Errorf("the store has %v, %v", names, err)
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte{}, true, uint32(0))
	f.Add(tarOf(f, "one", release...), false, uint32(1))
	f.Add(zipOf(f, "one", release...), true, uint32(1))
	f.Fuzz(func(t *testing.T, data []byte, isZip bool, strip uint32) {
		s := &source{data: bytes.NewReader(data), size: int64(len(data)), format: ".tar", strip: strip % 20}
		if isZip {
			s.format = ".zip"
		}
		l, err := list(s)
		if err != nil {
			return
		}
		for _, e := range l.entries {
			if to := filepath.Join("/root/dir", e.Name); !strings.HasPrefix(to, "/root/dir/") {
				t.Errorf("%q leads out", e.Name)
			}
		}
	})
}

// What another state decides of a directory stays when the archive gets another owner, each of it alone.
func TestAnArchiveLeavesWhatAnotherStateDecidesOfADirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	const daemon = 1 // a user and a group on every host
	for claim, name := range map[Claim]string{User: "user", Group: "group", Mode: "mode"} {
		x := newTarget(t)
		must(t, os.Chmod(x.dir, 0o755))
		x.files["files/a.tar"] = tarOf(t, "one", release[0]) // the directory alone: others may have moved what is in it
		dir := x.dir + "/app/app-1.0"
		x.claims = Claims{At: map[string]Claim{dir: claim}}
		x.wants(state.ArchiveExtracted{Source: "files/a.tar"}, "create extract")
		must(t, os.Chown(dir, daemon, daemon))
		must(t, os.Chmod(dir, 0o711))
		x.wants(state.ArchiveExtracted{Source: "files/a.tar", User: "nobody", Group: "nogroup"}, "extract owner")
		info, err := os.Stat(dir)
		must(t, err)
		is := info.Sys().(*syscall.Stat_t)
		kept := map[string]bool{"user": is.Uid == daemon, "group": is.Gid == daemon, "mode": info.Mode().Perm() == 0o711}
		for what, stays := range kept {
			if stays != (what == name) {
				t.Errorf("a state decides of the %s: the %s is kept: %v", name, what, stays)
			}
		}
	}
}

// A pipe, like a directory, at the place of a file of the archive stays.
func TestAnArchiveReplacesNoPipe(t *testing.T) {
	x := newTarget(t)
	x.files["files/a.tar"] = tarOf(t, "one", release...)
	bin := x.dir + "/app/app-1.0/bin"
	must(t, os.MkdirAll(bin, 0o755))
	must(t, syscall.Mkfifo(bin+"/run", 0o600))
	_, err := x.apply(state.ArchiveExtracted{Source: "files/a.tar"})
	if err == nil || !strings.Contains(err.Error(), "the archive has a file or link there") {
		t.Errorf("the error is %v", err)
	}
	if info, err := os.Lstat(bin + "/run"); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("it is %v, %v", info, err)
	}
}

func TestClaimsOfAllDirectoriesAboveAreJoined(t *testing.T) {
	c := Claims{At: map[string]Claim{"/a/b/c": Mode}, Below: map[string]Claim{"/a/b": User, "/a": Group, "/a/b/c": Whole}}
	if got := c.of("/a/b/c"); got != Mode|User|Group {
		t.Errorf("the claims are %b", got)
	}
}
