package main

import (
	"strings"
	"testing"
)

func TestABackupListsTheFilesThatItLacks(t *testing.T) {
	c := Config{Custody: Custody{Identities: []string{"/etc/zester/age.key"}}}
	c.Notify = []Place{{Token: "/etc/zester/forge.token"}}
	c.Git.SSHKey, c.Creds = "/etc/zester/deploy", "/etc/zester/m1.creds"
	want := "/etc/zester/age.key /etc/zester/deploy /etc/zester/forge.token /etc/zester/m1.creds"
	if got := strings.Join(c.files(), " "); got != want {
		t.Errorf("files are %s, want %s", got, want)
	}
}
