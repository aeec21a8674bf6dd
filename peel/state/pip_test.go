//go:build linux

package state

import (
	"archive/zip"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// wheel makes a package of Python with a module that has its version.
func wheel(t *testing.T, dir, name, version string) {
	t.Helper()
	f, err := os.Create(dir + "/" + name + "-" + version + "-py3-none-any.whl")
	must(t, err)
	w := zip.NewWriter(f)
	info := name + "-" + version + ".dist-info/"
	for file, content := range map[string]string{
		name + ".py":      "version = '" + version + "'\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	} {
		to, err := w.Create(file)
		must(t, err)
		_, err = to.Write([]byte(content))
		must(t, err)
	}
	must(t, w.Close())
	must(t, f.Close())
}

func TestPythonPackagesOfAVirtualEnvironment(t *testing.T) {
	if out, err := exec.Command("python3", "-c", "import ensurepip, venv").CombinedOutput(); err != nil {
		t.Skipf("needs python3 with venv: %s", out)
	}
	h := newHost(t)
	must(t, os.Chmod(h.dir, 0o700))
	must(t, os.Mkdir(h.dir+"/wheels", 0o755))
	wheel(t, h.dir+"/wheels", "zt_one", "1.0")
	wheel(t, h.dir+"/wheels", "zt_one", "1.1")
	wheel(t, h.dir+"/wheels", "zt_two", "2.0")
	state := func(names string) string {
		return "py: {pip.installed: {names: [" + names + "], venv: DIR/venv, find_links: DIR/wheels}}"
	}
	predicted := h.run(state("zt.one==1.0, ZT-two"), true)
	h.wants(predicted, "py: would_change intended")
	if _, err := os.Stat(h.dir + "/venv"); err == nil {
		t.Error("a test made the environment")
	}
	applied := h.run(state("zt.one==1.0, ZT-two"), false)
	h.wants(applied, "py: changed intended")
	if len(applied.States[0].Changes) != 3 || len(predicted.States[0].Changes) != 3 {
		t.Errorf("%+v, %+v was predicted", applied.States[0].Changes, predicted.States[0].Changes)
	}
	h.wants(h.run(state("zt.one==1.0, ZT-two"), true), "py: unchanged")
	h.wants(h.run(state("zt_one==1, zt_two"), true), "py: unchanged")
	out, err := exec.Command(h.dir+"/venv/bin/python", "-c", "import zt_one, zt_two; print(zt_one.version)").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "1.0" {
		t.Errorf("%s, %v", out, err)
	}
	h.wants(h.run(state("zt_one==1.1"), true), "py: would_change intended")
	h.wants(h.run(state("zt_one==1.1"), false), "py: changed intended")
	h.wants(h.run(state("zt_one==1.1"), false), "py: unchanged")
	must(t, exec.Command("sh", "-c", "rm -r "+h.dir+"/venv/lib/python*/site-packages/pip*").Run())
	h.wants(h.run(state("zt_one==1.1"), false), "py: changed drift") // as after venv without Debian's python3-venv
	h.wants(h.run(state("zt_one==1.1"), false), "py: unchanged")
	r := h.run(state("zt_three"), false)
	h.wants(r, "py: failed intended")
	if c := r.States[0].Comment; !strings.Contains(c, "zt_three") {
		t.Errorf("the error is %s", c)
	}
}

// Root runs no Python and no pip that another user can change.
func TestAnEnvironmentOfAnotherUserIsNotRunByRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	const nobody = 65534
	for name, give := range map[string]func(venv string) error{
		"all":     func(venv string) error { return os.Chown(venv, nobody, nobody) },
		"bin":     func(venv string) error { return os.Chown(venv+"/bin", nobody, nobody) },
		"python":  func(venv string) error { return os.Chown(venv+"/bin/python", nobody, nobody) },
		"written": func(venv string) error { return os.Chmod(venv+"/bin/python", 0o777) },
		"modules": func(venv string) error { return os.Chown(venv+"/lib/python3.99/site-packages", nobody, nobody) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			must(t, os.Chmod(h.dir, 0o755))
			venv, ran := h.dir+"/venv", h.dir+"/ran"
			must(t, os.MkdirAll(venv+"/bin", 0o755))
			must(t, os.MkdirAll(venv+"/lib/python3.99/site-packages/pip-1.dist-info", 0o755))
			must(t, os.WriteFile(venv+"/bin/python", []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755))
			const state = "py: {pip.installed: {name: zt_one, venv: DIR/venv}}"
			h.wants(h.run(state, false), "py: failed intended") // that Python installs nothing
			if _, err := os.Stat(ran); err != nil {
				t.Fatal("the Python of root did not run")
			}
			must(t, os.Remove(ran))

			must(t, give(venv))
			r := h.run(state, false)
			h.wants(r, "py: failed")
			if c := r.States[0].Comment; !strings.Contains(c, "name the user in the argument user") {
				t.Errorf("the error is %s", c)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("root ran it")
			}
		})
	}
}
