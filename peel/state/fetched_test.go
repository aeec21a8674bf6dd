//go:build linux

package state

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/download/downloadtest"
)

// servedFile is a file of the server of [serve].
const servedFile = "served\n"

// serve makes the https server of the tests one that has a file, an archive, and a repository of git with the tag v1
// below its branch main. Packages of Python are in a directory.
func (h *fixture) serve() (archiveSum string) {
	h.t.Helper()
	archive := smallArchive()
	sum := sha256.Sum256(archive)
	must(h.t, os.MkdirAll(h.dir+"/served/origin", 0o755))
	must(h.t, os.MkdirAll(h.dir+"/served/wheels", 0o755))
	must(h.t, os.Symlink("served/origin", h.dir+"/origin"))
	mux := http.NewServeMux()
	send := func(data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
	}
	mux.Handle("/file", send([]byte(servedFile)))
	mux.Handle("/app.tar", send(archive))
	if out, err := exec.Command("git", "--exec-path").Output(); err == nil {
		h.git("init", "--quiet")
		h.commit("one")
		h.git("tag", "-a", "v1", "-m", "v1")
		h.commit("two")
		mux.Handle("/git/", &cgi.Handler{
			Path: strings.TrimSpace(string(out)) + "/git-http-backend", Root: "/git",
			Env: []string{"GIT_PROJECT_ROOT=" + h.dir + "/served", "GIT_HTTP_EXPORT_ALL=1"},
		})
	}
	for _, version := range []string{"1.0", "1.1"} {
		wheel(h.t, h.dir+"/served/wheels", "zt_one", version)
		wheel(h.t, h.dir+"/served/wheels", "zt_two", version)
	}
	downloadtest.Server.Config.Handler = mux
	h.t.Setenv("GIT_SSL_CAINFO", os.Getenv("SSL_CERT_FILE"))
	return hex.EncodeToString(sum[:])
}

// smallArchive is an archive with a directory, a file and a link.
func smallArchive() []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, header := range []tar.Header{
		{Name: "zt-1.0/bin", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "zt-1.0/bin/run", Typeflag: tar.TypeReg, Mode: 0o755, Size: 4},
		{Name: "zt-1.0/run", Typeflag: tar.TypeSymlink, Linkname: "bin/run"},
	} {
		err := w.WriteHeader(&header)
		if err == nil && header.Size > 0 {
			_, err = w.Write([]byte("run\n"))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// fetched returns states of what the server has, and makes what the host has of it before: nothing, an earlier
// version, or what somebody else put there. Functions whose program is not there are left out.
func (h *fixture) fetched(r *rand.Rand, sum string, withPython bool) (states []string) {
	h.t.Helper()
	var after []string // commands that react come last, because nobody knows what they change
	maybe := func() bool { return r.IntN(2) == 0 }
	before := func(script string) {
		if maybe() {
			out, err := exec.Command("sh", "-ec", strings.ReplaceAll(script, "DIR", h.dir)).CombinedOutput()
			if err != nil {
				h.t.Fatalf("%s: %v\n%s", script, err, out)
			}
		}
	}
	add := func(name, call string) {
		call = strings.ReplaceAll(call, "URL", downloadtest.Server.URL)
		states = append(states, name+": {"+call+"}")
		after = append(after,
			"after-"+name+": {cmd.run: {command: 'echo x >> DIR/log-"+name+"'}, onchanges: ["+name+"]}")
	}
	if maybe() {
		fileSum := sha256.Sum256([]byte(servedFile))
		before("echo other > DIR/file")
		add("file", "file.managed: {path: DIR/file, source: 'URL/file', mode: '0640', sha256: "+
			hex.EncodeToString(fileSum[:])+"}")
	}
	if maybe() {
		before("mkdir -p DIR/app/bin; echo other > DIR/app/bin/run")
		add("app", fmt.Sprintf("archive.extracted: {path: DIR/app, source: 'URL/app.tar', sha256: %s, strip: %d}",
			sum, r.IntN(2)))
	}
	if _, err := exec.LookPath("git"); err == nil && maybe() {
		before("git clone --quiet --branch v1 DIR/origin DIR/clone 2>&1; git -C DIR/clone remote set-url origin " +
			downloadtest.Server.URL + "/git/origin/.git")
		add("clone", "git.latest: {path: DIR/clone, url: 'URL/git/origin/.git', rev: "+
			[]string{"main", "v1", "none"}[r.IntN(3)]+"}")
	}
	if withPython && exec.Command("python3", "-c", "import ensurepip, venv").Run() == nil {
		before("python3 -m venv DIR/venv\n" +
			"DIR/venv/bin/pip -q install --no-index --find-links DIR/served/wheels zt_one==1.0")
		add("py", "pip.installed: {names: ['zt_one==1.1', zt-two], venv: DIR/venv, find_links: DIR/served/wheels}")
	}
	return append(states, after...)
}

// TestWhatIsFetchedIsPredicted holds over random states of what comes from servers, and random hosts: what a test says
// is what a run does, or it is unknown; after it a second test is empty, and each change has had one reaction.
func TestWhatIsFetchedIsPredicted(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes of git and Python")
	}
	functions := map[string]int{} // predictions that were held
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHost(t)
			withPython := seed%8 == 3 // a virtual environment takes seconds
			states := h.fetched(rand.New(rand.NewPCG(seed, 21)), h.serve(), withPython)
			text := strings.Join(states, "\n")
			if text == "" {
				return
			}
			predicted, applied := h.run(text, true), h.run(text, false)
			failed := false
			for i, p := range predicted.States {
				a := applied.States[i]
				failed = failed || a.Result == Failed
				if p.Result == Unknown || h.differ(p, a) != nil {
					continue
				}
				functions[p.Function]++
			}
			for _, o := range applied.States {
				log := h.read("log-" + strings.TrimPrefix(o.State, "after-"))
				if o.Function == "cmd.run" && (log == "x\n") != (o.Result == Changed) {
					t.Errorf("%s is %s, and the log is %q", o.State, o.Result, log)
				}
			}
			again := h.run(text, true)
			isLeft := func(o Outcome) bool { return o.Result != Unchanged && o.Result != Skipped }
			if !failed && slices.ContainsFunc(again.States, isLeft) {
				t.Errorf("the second test: %s", strings.Join(described(again), "\n"))
			}
		})
	}
	t.Logf("predictions that were held: %v", functions)
	for _, name := range []string{"file.managed", "archive.extracted"} {
		if functions[name] == 0 {
			t.Errorf("no prediction of %s was held", name)
		}
	}
}

// differ reports a prediction that is not what a run did.
func (h *fixture) differ(p, a Outcome) error {
	h.t.Helper()
	verdict := strings.Replace(string(p.Result), string(WouldChange), string(Changed), 1)
	afterFailed := a.Result == Skipped && a.Reason == RequireFailed
	if afterFailed || verdict == string(a.Result) && (a.Result == Failed ||
		fmt.Sprint(p.Changes) == fmt.Sprint(a.Changes)) {
		return nil
	}
	err := fmt.Errorf("%s is predicted as %s %+v (%s), and applied as %s %+v (%s)", p.State, p.Result, p.Changes,
		p.Comment, a.Result, a.Changes, a.Comment)
	h.t.Error(err)
	return err
}
