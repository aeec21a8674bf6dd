package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// layer returns what the only layer of the image of a program has for a platform, and its configuration.
func layer(t *testing.T, program, arch string) ([]byte, imageConfig) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(*releaseDir, program+".oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	stored, platforms := readImage(t, data)
	i := slices.IndexFunc(platforms, func(d descriptor) bool { return d.Platform.Architecture == arch })
	if i < 0 {
		t.Fatalf("the image of %s has no platform %s", program, arch)
	}
	return stored.layer(t, platforms[i])
}

func TestTheReleaseInADirectoryHasImagesWithItsPrograms(t *testing.T) {
	skipWithoutRelease(t)
	for _, program := range []string{"zester-master", "zester-peel"} {
		for _, arch := range arches() {
			plain, config := layer(t, program, arch)
			files, _ := untar(t, bytes.NewReader(plain))
			if sha256.Sum256(files["usr/bin/"+program]) != sum(t, program+"-linux-"+arch) {
				t.Errorf("the image of %s for %s has another program", program, arch)
			}
			if got := config.Config.Labels["org.opencontainers.image.version"]; got != *releaseVersion {
				t.Errorf("the image of %s has the version %q", program, got)
			}
			if len(files["etc/ssl/certs/ca-certificates.crt"]) == 0 || len(files["etc/passwd"]) == 0 {
				t.Errorf("the image of %s for %s lacks authorities or users", program, arch)
			}
		}
	}
}

// The container of a master has nothing but its image, and the user that the image names.
func TestTheReleaseInADirectoryHasAnImageWhoseMasterStarts(t *testing.T) {
	skipWithoutRelease(t)
	if os.Getuid() != 0 || !slices.Contains(arches(), runtime.GOARCH) {
		t.Skip("needs root, and an image for this machine")
	}
	plain, config := layer(t, "zester-master", runtime.GOARCH)
	root := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-p", "--numeric-owner", "-C", root)
	unpack.Stdin = bytes.NewReader(plain)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	entry := config.Config.Entrypoint[0]
	master := exec.CommandContext(t.Context(), entry, "--listen", "127.0.0.1:0", "--rest-listen", "127.0.0.1:0")
	master.Dir, master.Env = "/", config.Config.Env
	master.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Credential: &syscall.Credential{Uid: nonRoot, Gid: nonRoot}, Pdeathsig: syscall.SIGKILL,
	}
	stderr, err := master.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := master.Start(); err != nil {
		t.Fatal(err)
	}
	ready, said := false, ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said += lines.Text() + "\n"
		if !ready && strings.Contains(lines.Text(), `"master is ready"`) {
			ready = true
			if err := master.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := master.Wait(); err != nil || !ready {
		t.Errorf("the master in the image says %v, ready: %t:\n%s", err, ready, said)
	}
}

// checkText compares what zester writes itself with the files of its package. Every command that help lists has a page.
func checkText(t *testing.T, name, arch string, files map[string][]byte) {
	t.Helper()
	if arch != runtime.GOARCH {
		return
	}
	zester := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), filepath.Join(*releaseDir, "zester-linux-"+arch), args...).Output()
		if err != nil {
			t.Fatalf("zester %q: %v", args, err)
		}
		return string(out)
	}
	for shell, path := range map[string]string{
		"bash": "/usr/share/bash-completion/completions/zester", "zsh": "/usr/share/zsh/vendor-completions/_zester",
		"fish": "/usr/share/fish/vendor_completions.d/zester.fish",
	} {
		if string(files[path]) != zester("completion", shell) {
			t.Errorf("%s: %s is not what zester completion %s prints", name, path, shell)
		}
	}
	_, commands, _ := strings.Cut(zester("help"), "\nCommands:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	n := 0
	for line := range strings.Lines(commands) {
		n++
		command, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		page := fmt.Sprintf("/usr/share/man/man1/zester-%s.1.gz", command)
		if len(files[page]) == 0 && command != "help" && command != "completion" { // two that cobra adds
			t.Errorf("%s lacks %s", name, page)
		}
	}
	if n < 20 {
		t.Errorf("zester help lists %d commands", n)
	}
}
