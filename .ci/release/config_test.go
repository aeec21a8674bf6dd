package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// configFiles are the configuration files of the packages with the digests of their bytes.
//
// A person writes into them, a join token too. If a release changed one, dpkg would ask at its upgrade whose version to
// keep. Without a terminal, as in unattended upgrades, it then fails and leaves the package half configured. Therefore
// these digests never change, and what there is to say about fields is in the example in the documentation folder.
var configFiles = map[string]map[string]string{
	"zester":        {},
	"zester-master": {"/etc/zester/master.yaml": "a54154b905888454429b0e4b0c10e7e19b825f7fb93d987eac7b6f2ed8483fd1"},
	"zester-peel": {
		"/etc/zester/peel.yaml":                    "7fed33d78f7e1d5dff357cd35aea0a169f0b9b77d815446bf87a9ece000d0574",
		"/etc/needrestart/conf.d/zester-peel.conf": "c700d71d87e022543319b16315deed7d73e34cd45eddc16351e7d6febe4adb76",
	},
}

func TestConfigurationFilesOfPackagesNeverChange(t *testing.T) {
	line := regexp.MustCompile(`src: "([^"]*)", dst: "([^"]*)".*, type: "config\|noreplace"}`)
	for _, program := range releasePrograms {
		for _, format := range []string{"deb", "rpm"} {
			config := exec.CommandContext(t.Context(), "../pack/config", program, format)
			config.Env = append(os.Environ(), "ARCH=amd64", "VERSION=0.1.0", "PROGRAMS="+t.TempDir(), "STAGE="+t.TempDir())
			out, err := config.Output()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, m := range line.FindAllStringSubmatch(string(out), -1) {
				data, err := os.ReadFile(m[1])
				if err != nil {
					t.Fatal(err)
				}
				got[m[2]] = fmt.Sprintf("%x", sha256.Sum256(data))
				if text := string(data); strings.HasSuffix(m[2], ".yaml") && (strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "# ")) {
					t.Errorf("%s is not one line of comment: %q", m[2], text)
				}
			}
			if !maps.Equal(got, configFiles[program]) {
				t.Errorf("the %s of %s has the configuration files %v, want %v: see configFiles", format, program, got, configFiles[program])
			}
			if n := strings.Count(string(out), `dst: "/etc/`); n != len(got) {
				t.Errorf("the %s of %s has %d files in /etc, and %d of them are configuration files", format, program, n, len(got))
			}
		}
	}
}

// checkDebConfig compares what dpkg takes for configuration files with configFiles.
func checkDebConfig(t *testing.T, name, program string, control, files map[string][]byte) {
	t.Helper()
	listed := strings.Fields(string(control["/conffiles"]))
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(configFiles[program])); !slices.Equal(listed, want) {
		t.Errorf("%s has the configuration files %q, want %q", name, listed, want)
	}
	for path, want := range configFiles[program] {
		if got := fmt.Sprintf("%x", sha256.Sum256(files[path])); got != want {
			t.Errorf("%s: the digest of %s is %s, want %s", name, path, got, want)
		}
	}
}

// scripts are lines that scripts of the packages of rpm must have, and each script's name as rpm prints it.
var scripts = map[string][]string{
	"zester": nil,
	"zester-master": {
		"postinstall scriptlet", "systemd-sysusers zester-master.conf", "systemctl try-restart zester-master.service",
		"preuninstall scriptlet", "systemctl disable --now zester-master.service", "postuninstall scriptlet",
	},
	"zester-peel": {
		"postinstall scriptlet", "systemctl kill --kill-who=main -s USR1 zester-peel.service",
		"preuninstall scriptlet", "systemctl disable --now zester-peel.service", "postuninstall scriptlet",
	},
}

// checkRPMScripts compares the scripts of a package of rpm, and what rpm takes for configuration files that it keeps.
func checkRPMScripts(t *testing.T, name, program string) {
	t.Helper()
	rpm := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "rpm", append(args, filepath.Join(*releaseDir, name))...).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return string(out)
	}
	listed := strings.Fields(rpm("-qp", "--nosignature", "-c"))
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(configFiles[program])); !slices.Equal(listed, want) {
		t.Errorf("%s has the configuration files %q, want %q", name, listed, want)
	}
	flags := rpm("-qp", "--nosignature", "--qf", "[%{FILENAMES} %{FILEFLAGS:fflags} %{FILEDIGESTS}\n]")
	for path, digest := range configFiles[program] {
		if want := path + " cn " + digest + "\n"; !strings.Contains(flags, want) {
			t.Errorf("%s lacks %q, a configuration file that is not replaced", name, want)
		}
	}
	text := rpm("-qp", "--nosignature", "--scripts")
	for _, want := range scripts[program] {
		if !strings.Contains(text, want) {
			t.Errorf("scripts of %s lack %q:\n%s", name, want, text)
		}
	}
	if len(scripts[program]) == 0 && text != "" {
		t.Errorf("%s has scripts:\n%s", name, text)
	}
}
