package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBackupAndRestoreSayWhatTheyNeed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "zester.age")
	if err := os.WriteFile(file, []byte("age-encryption.org/v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "master.yaml")
	if err := os.WriteFile(config, []byte("data_dir: "+dir+"/data\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"backup " + file, 1, "cannot back up without a recipient, because the file has the keys of the fleet: give --to RECIPIENT"},
		{"backup " + file + " --to ada", 1, "there are no keys in " + dir + "/data/auth\nhint: run this on the host of the master that has the keys"},
		{"backup " + file + " --to ada --plain", 1, "cannot use --to and --plain together"},
		{"backup --check " + file, 1, "without an identity, because it is encrypted: give --identity KEY"},
		{"backup --check " + config, 1, "it is not a backup: it does not begin with manifest.json"},
		{"backup", 64, "cannot use 0 arguments: zester-master backup needs one, FILE"},
		{"restore " + dir + "/none", 1, "cannot read the backup: open " + dir + "/none"},
		{"restore " + config, 1, "cannot use the backup: it is not a backup"},
	} {
		_, errOut, code := command{dir: dir, args: append(append([]string{"zester-master"}, strings.Fields(c.args)...), "--config", config)}.run(t)
		if code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: code %d, wrote %s", c.args, code, errOut)
		}
	}
}
