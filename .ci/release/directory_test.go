package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// .ci/package gives these flags when it has written a release.
var (
	releaseDir     = flag.String("release", "", "check the release in this `folder`")
	releaseVersion = flag.String("version", "", "its `version`")
)

var releasePrograms = []string{"zester", "zester-master", "zester-peel"}

// arches are the architectures of the release.
func arches() []string { return strings.Fields(os.Getenv("ARCHES")) }

func skipWithoutRelease(t *testing.T) {
	t.Helper()
	if *releaseDir == "" {
		t.Skip("-release names no folder")
	}
}

// modules returns the modules of a program as name@version, as go version -m lists them.
func modules(t *testing.T, file string) (all []string) {
	t.Helper()
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		all = append(all, m.Path+"@"+m.Version)
	}
	slices.Sort(all)
	return all
}

// listed returns the licences in THIRD-PARTY.txt by name@version.
func listed(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(*releaseDir, "THIRD-PARTY.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^-{80}\n(\S+) (\S+)\nLicence: (.*)\n-{80}$`).FindAllStringSubmatch(string(data), -1) {
		all[m[1]+"@"+m[2]] = m[3]
	}
	return all
}

func TestTheReleaseInADirectoryNamesWhatItContains(t *testing.T) {
	skipWithoutRelease(t)
	licences, linked := listed(t), map[string]bool{"Go@" + runtime.Version(): true}
	for _, arch := range arches() {
		for _, program := range releasePrograms {
			want := modules(t, filepath.Join(*releaseDir, program+"-linux-"+arch))
			var got []string
			b, err := readBOM(filepath.Join(*releaseDir, program+"-"+arch+".cdx.json"))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range b.components {
				module := text(c, "name") + "@" + text(c, "version")
				got = append(got, module)
				var ids []string
				var found []bomLicence
				if err := json.Unmarshal(c["licenses"], &found); err != nil {
					t.Fatalf("%s: %v", module, err)
				}
				for _, l := range found {
					ids = append(ids, l.License.ID)
				}
				if strings.Join(ids, " and ") != licences[module] {
					t.Errorf("the licence of %s is %q in the bill of %s and %q in THIRD-PARTY.txt", module, ids, program, licences[module])
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) || len(want) < 10 {
				t.Errorf("the bill of %s for %s has\n%s\nand the program\n%s", program, arch, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for _, m := range want {
				linked[m] = true
			}
		}
	}
	if a, b := slices.Sorted(maps.Keys(licences)), slices.Sorted(maps.Keys(linked)); !slices.Equal(a, b) {
		t.Errorf("THIRD-PARTY.txt has\n%s\nand the programs\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

func TestTheReleaseInADirectoryHasItsSums(t *testing.T) {
	skipWithoutRelease(t)
	sums, err := os.ReadFile(filepath.Join(*releaseDir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	files, err := os.ReadDir(*releaseDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), "SHA256SUMS") {
			want += fmt.Sprintf("%x  %s\n", sum(t, f.Name()), f.Name())
		}
	}
	if string(sums) != want {
		t.Errorf("SHA256SUMS has\n%sand the folder\n%s", sums, want)
	}
}

func sum(t *testing.T, name string) [sha256.Size]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(*releaseDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}

// members returns the files of a package of Debian, which is an archive of ar, by name.
func members(t *testing.T, file string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, all := bufio.NewReader(bytes.NewReader(data)), map[string][]byte{}
	if _, err := r.Discard(len("!<arch>\n")); err != nil {
		t.Fatal(err)
	}
	for {
		head := make([]byte, 60)
		if _, err := io.ReadFull(r, head); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		size, err := strconv.Atoi(strings.TrimSpace(string(head[48:58])))
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			t.Fatal(err)
		}
		_, _ = r.Discard(size % 2)
		all[strings.TrimRight(string(head[:16]), "/ ")] = body
	}
}

// unzip returns the files of a tar that a program can decompress without the dot that begins each name.
func unzip(t *testing.T, program string, data []byte) (files map[string][]byte, heads map[string]*tar.Header) {
	t.Helper()
	unzip := exec.Command(program, "-dc")
	unzip.Stdin = bytes.NewReader(data)
	plain, err := unzip.Output()
	if err != nil {
		t.Fatal(err)
	}
	raw, named := untar(t, bytes.NewReader(plain))
	files, heads = map[string][]byte{}, map[string]*tar.Header{}
	for name := range raw {
		short := "/" + strings.TrimPrefix(strings.TrimPrefix(name, "."), "/")
		files[short], heads[short] = raw[name], named[name]
	}
	return files, heads
}

// limits are the most bytes of the compressed contents of a package of Debian.
var limits = map[string]int{"zester": 16_700_000, "zester-master": 13_300_000, "zester-peel": 4_600_000}

// contents are what packages of each program have to contain besides it, with the modes.
var contents = map[string]map[string]int64{
	"zester": {
		"/usr/share/man/man1/zester.1.gz": 0o644, "/usr/share/man/man1/zester-peel-remove.1.gz": 0o644,
		"/usr/share/bash-completion/completions/zester": 0o644, "/usr/share/zester/schema/entry.json": 0o644,
		"/usr/share/doc/zester/examples/fleet/top.yaml": 0o644,
	},
	"zester-master": {
		"/etc/zester/master.yaml": 0o644, "/usr/lib/systemd/system/zester-master.service": 0o644,
		"/usr/lib/sysusers.d/zester-master.conf": 0o644, "/usr/share/man/man8/zester-master.8.gz": 0o644,
	},
	"zester-peel": {
		"/etc/zester/peel.yaml": 0o600, "/usr/lib/systemd/system/zester-peel.service": 0o644,
		"/etc/needrestart/conf.d/zester-peel.conf": 0o644, "/usr/share/man/man8/zester-peel.8.gz": 0o644,
	},
}

func TestTheReleaseInADirectoryHasPackagesForEachArchitecture(t *testing.T) {
	skipWithoutRelease(t)
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, arch := range arches() {
		for _, program := range releasePrograms {
			file := filepath.Join(*releaseDir, program+"-linux-"+arch)
			f, err := elf.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			if f.Machine != machines[arch] || f.Section(".interp") != nil {
				t.Errorf("%s is for %v, or needs a linker", file, f.Machine)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			checkDeb(t, program, arch)
			checkRPM(t, program, arch)
		}
	}
}

func checkDeb(t *testing.T, program, arch string) {
	t.Helper()
	name := fmt.Sprintf("%s_%s_%s.deb", program, *releaseVersion, arch)
	parts := members(t, filepath.Join(*releaseDir, name))
	if n := len(parts["data.tar.xz"]); n > limits[program] {
		t.Errorf("%s has %d bytes compressed, want at most %d", name, n, limits[program])
	}
	control, _ := unzip(t, "gzip", parts["control.tar.gz"])
	for _, want := range []string{"Package: " + program + "\n", "Version: " + *releaseVersion + "\n", "Architecture: " + arch + "\n"} {
		if !strings.Contains(string(control["/control"]), want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
	if _, err := exec.LookPath("xz"); err != nil {
		t.Log("the contents of packages of Debian are not checked:", err)
		return
	}
	files, heads := unzip(t, "xz", parts["data.tar.xz"])
	checkDebConfig(t, name, program, control, files)
	if program == "zester" {
		checkText(t, name, arch, files)
	}
	if sha256.Sum256(files["/usr/bin/"+program]) != sum(t, program+"-linux-"+arch) {
		t.Errorf("%s has another program", name)
	}
	want := maps.Clone(contents[program])
	want["/usr/bin/"+program] = 0o755
	for _, doc := range []string{"copyright", "THIRD-PARTY.txt", "CHANGELOG.md", "changelog.gz"} {
		want["/usr/share/doc/"+program+"/"+doc] = 0o644
	}
	for path, mode := range want {
		if h := heads[path]; h == nil || h.Mode&0o777 != mode || h.Uid != 0 || len(files[path]) == 0 {
			t.Errorf("%s: %s is %+v", name, path, h)
		}
	}
}

func checkRPM(t *testing.T, program, arch string) {
	t.Helper()
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Log("packages of rpm are not checked:", err)
		return
	}
	as := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	name := fmt.Sprintf("%s-%s-1.%s.rpm", program, *releaseVersion, as)
	out, err := exec.Command("rpm", "-qp", "--nosignature", "--qf", "%{NAME} %{VERSION} %{ARCH}\n[%{FILENAMES} %{FILEDIGESTS}\n]", filepath.Join(*releaseDir, name)).Output()
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	head := fmt.Sprintf("%s %s %s\n", program, *releaseVersion, as)
	binary := fmt.Sprintf("/usr/bin/%s %x\n", program, sum(t, program+"-linux-"+arch))
	if !strings.HasPrefix(string(out), head) || !strings.Contains(string(out), binary) {
		t.Errorf("%s has no %q, or another program: %s", name, head, out)
	}
	for path := range contents[program] {
		if !strings.Contains(string(out), "\n"+path+" ") {
			t.Errorf("%s lacks %s", name, path)
		}
	}
	checkRPMScripts(t, name, program)
}
