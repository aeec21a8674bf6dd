//go:build linux

package state

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"testing"
)

// writeTar writes a tar archive with files that have the content "of the archive", below the directory app.
func (h *fixture) writeTar(name string, files ...string) {
	h.t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	const content = "of the archive\n"
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))})
		must(h.t, err)
		_, err = w.Write([]byte(content))
		must(h.t, err)
	}
	must(h.t, errors.Join(w.Close(), os.MkdirAll(h.dir+"/files", 0o755)))
	must(h.t, os.WriteFile(h.dir+"/files/"+name, out.Bytes(), 0o644))
}

// Each of these states is about a path that the archive has too. After one run neither undoes the other, and both states
// still notice what a person changes.
func TestAnArchiveAndAStateOfAFileInItAgree(t *testing.T) {
	for text, want := range map[string]string{
		"file.managed: {path: DIR/app/conf/server.xml, content: mine}":                      "mine",
		"file.managed: {path: DIR/app/conf/server.xml, content: mine, replace: false}":      "mine",
		"file.symlink: {path: DIR/app/conf/server.xml, target: a}":                          "of the archive\n",
		"file.absent: {path: DIR/app/conf/server.xml}":                                      "",
		"file.absent: {path: DIR/app/conf}":                                                 "",
		"file.symlink: {path: DIR/app/conf, target: other}":                                 "",
		"file.line: {path: DIR/app/conf/server.xml, line: mine}":                            "of the archive\nmine\n",
		"file.replace: {path: DIR/app/conf/server.xml, pattern: '^of', repl: 'not of'}":     "not of the archive\n",
		"file.directory: {path: DIR/app/conf, mode: '0700'}":                                "of the archive\n",
		"file.directory: {path: DIR/app, mode: '0750', file_mode: '0600', recurse: [mode]}": "of the archive\n",
	} {
		h := newHost(t)
		h.writeTar("app.tar", "conf/a", "conf/server.xml", "bin/run")
		all := "app: {archive.extracted: {path: DIR/app, source: files/app.tar}}\nconf: {" + text + ", require: [app]}"
		h.run(all, false)
		r := h.run(all, false)
		for _, o := range r.States {
			if o.Result != Unchanged {
				t.Errorf("%s: the second run: %s: %s %s %+v", text, o.State, o.Result, o.Comment, o.Changes)
			}
		}
		got, err := os.ReadFile(h.dir + "/app/conf/server.xml")
		if string(got) != want || err != nil && want != "" {
			t.Errorf("%s: the file has %q, %v", text, got, err)
		}

		must(t, os.Remove(h.dir+"/app/bin/run"))
		if r := h.run(all, false); r.States[0].Result != Changed {
			t.Errorf("%s: a file is missing: %s %s", text, r.States[0].Result, r.States[0].Comment)
		}
		h.run(all, false)
		for _, o := range h.run(all, false).States {
			if o.Result != Unchanged {
				t.Errorf("%s: the last run: %s: %s %s %+v", text, o.State, o.Result, o.Comment, o.Changes)
			}
		}
	}
}
