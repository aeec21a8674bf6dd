package survey

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A tree is the files of a host, by path. write makes them with a mode of 0644, directories with 0755.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T, files map[string]string) tree {
	h := tree{t, t.TempDir()}
	for name, text := range files {
		h.write(name, text)
	}
	return h
}

func (h tree) write(name, text string) {
	h.t.Helper()
	at := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(at, 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func files(c Cron) (names []string) {
	for _, t := range c.Tables {
		names = append(names, t.File)
	}
	return names
}

func (c Cron) reason(file string) string {
	for _, s := range c.Skipped {
		if s.File == file {
			return s.Reason
		}
	}
	return ""
}

func TestTablesOfCronAreReadWhereCronReadsThem(t *testing.T) {
	h := newTree(t, map[string]string{
		"/etc/crontab":                                          "0 1 * * * root one\n",
		"/etc/cron.d/two":                                       "0 2 * * * root two\n",
		"/var/spool/cron/crontabs/ada":                          "0 3 * * * three\n",
		"/var/spool/cron/atjobs/a0001":                          "no table",
		"/etc/systemd/system/x/.keep":                           "",
		"/etc/systemd/system/cleanup.timer":                     "",
		"/etc/anacrontab":                                       "1 5 cron.daily run-parts /etc/cron.daily\n",
		"/etc/systemd/system/timers.target.wants/cleanup.timer": "",
	})
	c := ReadCron(h.root)
	if got, want := files(c), []string{"/etc/crontab", "/etc/cron.d/two", "/var/spool/cron/crontabs/ada"}; !slices.Equal(got, want) {
		t.Errorf("tables %v, want %v; skipped %v", got, want, c.Skipped)
	}
	if ada := c.Tables[2]; ada.User != "ada" || ada.Text != "0 3 * * * three\n" || ada.Bytes != 16 {
		t.Errorf("%+v", ada)
	}
	if c.Tables[0].User != "" {
		t.Errorf("/etc/crontab is the table of %s", c.Tables[0].User)
	}
	if !slices.Equal(c.Timers, []string{"cleanup.timer"}) {
		t.Errorf("timers %v", c.Timers)
	}
	if !strings.Contains(c.reason("/etc/anacrontab"), "interval") || len(c.Skipped) != 1 {
		t.Errorf("skipped %v", c.Skipped)
	}
	for _, table := range c.Plain().Tables {
		if table.Text != "" || table.Bytes == 0 {
			t.Errorf("without its text a table is %+v", table)
		}
	}
	if c.Tables[0].Text == "" {
		t.Error("Plain has changed the tables")
	}
}

func TestAHostWithoutCronHasNoTables(t *testing.T) {
	c := ReadCron(t.TempDir())
	if len(c.Tables)+len(c.Skipped)+len(c.Timers) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestFilesThatCronSkipsAreNamedWithTheReason(t *testing.T) {
	h := newTree(t, map[string]string{
		"/etc/cron.d/.placeholder": "", "/etc/cron.d/#draft": "", "/etc/cron.d/old~": "", "/etc/cron.d/app.rpmsave": "",
		"/etc/cron.d/open": "0 1 * * * root x\n", "/etc/cron.d/names": "0 1 * * * root x\n", "/etc/cron.d/with.dot": "0 1 * * * root x\n",
		"/etc/cron.d/large": strings.Repeat("# 16 characters\n", maxTable/16+1), "/etc/cron.d/dir/file": "", "/elsewhere": "0 1 * * * root x\n",
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chmod(h.root+"/etc/cron.d/open", 0o664))
	must(os.Link(h.root+"/etc/cron.d/names", h.root+"/elsewhere2"))
	must(os.Symlink("../../elsewhere", h.root+"/etc/cron.d/link"))
	want := map[string]string{
		"/etc/cron.d/.placeholder": "begins with .", "/etc/cron.d/#draft": "begins with #", "/etc/cron.d/old~": "ends with ~",
		"/etc/cron.d/app.rpmsave": "ends with .rpmsave", "/etc/cron.d/open": "other users can write it, its mode is 0664",
		"/etc/cron.d/names": "has 2 names", "/etc/cron.d/large": "more than 262144 bytes", "/etc/cron.d/dir": "it is a directory",
		"/etc/cron.d/link": "it is a symbolic link",
	}
	if os.Geteuid() == 0 {
		h.write("/etc/cron.d/ofada", "0 1 * * * root x\n")
		must(os.Chown(h.root+"/etc/cron.d/ofada", 4711, 4711))
		want["/etc/cron.d/ofada"] = "belongs to the user 4711 and not to root"
		h.write("/var/spool/cron/root", "0 1 * * * x\n")
		must(os.Chown(h.root+"/var/spool/cron/root", 4711, 4711))
		want["/var/spool/cron/root"] = "belongs to the user 4711 and not to root"
	}
	c := ReadCron(h.root)
	for file, reason := range want {
		if got := c.reason(file); !strings.Contains(got, reason) {
			t.Errorf("%s: %q, want %q", file, got, reason)
		}
	}
	if got := files(c); !slices.Equal(got, []string{"/etc/cron.d/with.dot"}) || len(c.Skipped) != len(want) {
		t.Errorf("tables %v, skipped %v", got, c.Skipped)
	}

	// The cron of Debian skips names with a dot.
	must(os.MkdirAll(h.root+"/var/spool/cron/crontabs", 0o755))
	c = ReadCron(h.root)
	if got := c.reason("/etc/cron.d/with.dot"); !strings.Contains(got, "the cron of Debian does not read it") || len(c.Tables) != 0 {
		t.Errorf("%q, tables %v", got, files(c))
	}
}

func TestTablesOfAHostAreBounded(t *testing.T) {
	h := newTree(t, map[string]string{})
	for i := range maxNames + 50 {
		h.write(fmt.Sprintf("/etc/cron.d/t%04d", i), strings.Repeat("#", 1000)+"\n")
	}
	c := ReadCron(h.root)
	size := 0
	for _, table := range c.Tables {
		size += table.Bytes
	}
	if size > maxTexts || size < maxTexts-1001 || len(c.Skipped) != maxSkips {
		t.Errorf("%d bytes in %d tables, %d skipped", size, len(c.Tables), len(c.Skipped))
	}
	if first, last := c.Skipped[0], c.Skipped[maxSkips-1]; !strings.Contains(first.Reason, "of 1050 files the first 1000 are read") || !strings.Contains(last.Reason, "more files are skipped than the 199") {
		t.Errorf("%v, %v", first, last)
	}
}
