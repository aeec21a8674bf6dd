//go:build linux

package module_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TestOnlyTheRecordedGroupIsKilled has records of a command that runs, as it was written and as if its group had been
// another one with the same ID.
func TestOnlyTheRecordedGroupIsKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, field, value string
		killed             bool
	}{
		{"as it was written", "", "", true},
		{"of another boot", "boot", `"f3d1a8a0-0000-0000-0000-000000000000"`, false},
		{"of another container", "init", "1", false},
		{"of another session", "session", "1", false},
		{"of a leader that started before", "start", "1", false},
		{"of a leader that started later", "start", "18446744073709551615", false},
		{"that cannot be read", "start", `"`, false},
		{"of no group", "id", "-1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, name, log := t.TempDir(), fifo(t), new(bytes.Buffer)
			groups, err := module.OpenGroups(dir, slog.New(slog.NewTextHandler(log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			registry := module.New()
			registry.Record(groups)
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan wire.Result, 1)
			go func() {
				result <- registry.Call(ctx, "cmd.run", module.Call{Args: args{"command": `until grep -q start "$D"/*; do sleep 0.1; done; echo go >"$F"; exec sleep 20`, "env": args{"F": name, "D": dir}}})
			}()
			if _, err := os.ReadFile(name); err != nil { // waits for the command
				t.Fatal(err)
			}
			other := alter(t, dir, c.field, c.value)
			if _, err := module.OpenGroups(other, slog.New(slog.NewTextHandler(log, nil))); err != nil {
				t.Fatal(err)
			}
			cancel()
			want := "SIGTERM"
			if c.killed {
				want = "SIGKILL"
			}
			if got := <-result; data(got, "signal") != want || strings.Contains(log.String(), "outlived") != c.killed ||
				strings.Contains(log.String(), "not recorded") {
				t.Errorf("want %s: %+v\n%s", want, got, log)
			}
			for _, d := range []string{dir, other} {
				if left, err := os.ReadDir(d); err != nil || len(left) > 0 {
					t.Errorf("left in %s: %v, %v", d, left, err)
				}
			}
		})
	}
}

// TestGroupsAreRecordedWhereProcIsHidden runs the test above as a user from whom /proc hides the processes of others,
// PID 1 as well.
func TestGroupsAreRecordedWhereProcIsHidden(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount /proc")
	}
	program, err := os.Open("/proc/self/exe") // the directory of the test is not open to others
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, hidepid := range []string{"1", "2"} {
		tmp, err := os.MkdirTemp("", "hidepid")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		if err := os.Chmod(tmp, 0o777); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", "mount -t proc -o hidepid="+hidepid+` proc /proc || exit
			setpriv --reuid=65534 --regid=65534 --clear-groups /proc/self/fd/3 -test.timeout=30s \
				-test.run='^TestOnlyTheRecordedGroupIsKilled$'
			ended=$?; exit $ended`)
		cmd.ExtraFiles = []*os.File{program}
		cmd.Dir = tmp
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		switch {
		case bytes.Contains(out, []byte("mount:")):
			t.Skipf("cannot mount /proc: %s", out)
		case err != nil:
			t.Errorf("hidepid=%s: %v\n%s", hidepid, err, out)
		}
	}
}

// alter copies the one record of dir to another directory, with a field changed.
func alter(t *testing.T, dir, field, value string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("recorded are %v, %v", files, err)
	}
	record, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	if field != "" {
		changed := regexp.MustCompile(`"`+field+`":[^,}]+`).ReplaceAll(record, []byte(`"`+field+`":`+value))
		if bytes.Equal(changed, record) {
			t.Fatalf("%s has no %s", record, field)
		}
		record = changed
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, files[0].Name()), record, 0o600); err != nil {
		t.Fatal(err)
	}
	return other
}
