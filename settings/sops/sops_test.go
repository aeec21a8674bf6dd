package sops_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func read(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func parse(t testing.TB, name, text string) *strictyaml.Node {
	t.Helper()
	doc, err := strictyaml.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// ring reads identities of the testdata, whose modes a checkout does not keep.
func ring(t testing.TB, names ...string) *sops.Ring {
	t.Helper()
	var files []string
	for _, name := range names {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(read(t, name)), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	r, err := sops.ReadRing(files...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func decrypt(t testing.TB, name string, r *sops.Ring) *strictyaml.Node {
	t.Helper()
	doc, err := sops.Decrypt(parse(t, name, read(t, name)), r)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// secrets are the places of secrets under n, list indexes left out, each with what is shown.
func secrets(n *strictyaml.Node, path string) map[string]string {
	out := map[string]string{}
	var walk func(n *strictyaml.Node, path string)
	walk = func(n *strictyaml.Node, path string) {
		if n.Secret != nil {
			out[path] = n.Value.(string)
		}
		for _, e := range n.List {
			walk(e, path)
		}
		for _, p := range n.Map {
			walk(p.Value, strings.TrimPrefix(path+"."+p.Key, "."))
		}
	}
	walk(n, path)
	return out
}

var files = []string{
	"default.yaml", "two_recipients.yaml", "encrypted_regex.yaml", "unencrypted_regex.yaml", "encrypted_suffix.yaml",
	"unencrypted_suffix.yaml", "mac_only.yaml", "encrypted_comment.yaml", "unencrypted_comment.yaml", "rotated.yaml",
}

func TestFilesOfSopsAreRead(t *testing.T) {
	want := parse(t, "decrypted.yaml", read(t, "decrypted.yaml")).Any()
	r := ring(t, "first.txt")
	for _, name := range files {
		if got := decrypt(t, name, r).Reveal(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%v\nwant\n%v", name, got, want)
		}
	}
	if got := decrypt(t, "hybrid.yaml", ring(t, "first.txt", "hybrid.txt")).Reveal(); !reflect.DeepEqual(got, want) {
		t.Errorf("hybrid.yaml: %v", got)
	}
}

func TestAnyOfTheRecipientsReadsAFile(t *testing.T) {
	decrypt(t, "two_recipients.yaml", ring(t, "second.txt"))
	decrypt(t, "two_recipients.yaml", ring(t, "hybrid.txt", "second.txt"))
}

func TestValuesAreSecretByTheRuleOfTheFile(t *testing.T) {
	r := ring(t, "first.txt")
	for name, want := range map[string][]string{
		"encrypted_regex.yaml":  {"db.hosts.name", "db.hosts.port", "db.password", "schedule.backup.args.env.TOKEN"},
		"encrypted_suffix.yaml": {"db.password", "yes_word"},
		"mac_only.yaml": {
			"db.hosts.name", "db.hosts.port", "db.nested", "db.part_unencrypted.below", "db.part_unencrypted.list",
			"db.part_unencrypted.when", "db.password", "db.public_unencrypted",
		},
	} {
		var got []string
		for place := range secrets(decrypt(t, name, r), "") {
			got = append(got, place)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, open := range map[string][]string{
		"default.yaml":             {"db.public_unencrypted", "db.part_unencrypted.below", "empty", "nothing"},
		"unencrypted_regex.yaml":   {"text", "schedule.backup.module"},
		"unencrypted_suffix.yaml":  {"yes_", "no_"},
		"unencrypted_comment.yaml": {"db.password", "db.hosts.name"},
	} {
		got := secrets(decrypt(t, name, r), "")
		for _, place := range open {
			if got[place] != "" {
				t.Errorf("%s: %s is secret", name, place)
			}
		}
		if got["list"] == "" {
			t.Errorf("%s: the elements of the list are no secrets", name)
		}
	}
}

func TestShownValuesHaveNoSecret(t *testing.T) {
	shown := regexp.MustCompile(`^•••[0-9a-f]{16}$`)
	doc := decrypt(t, "default.yaml", ring(t, "first.txt"))
	for place, text := range secrets(doc, "") {
		if !shown.MatchString(text) {
			t.Errorf("%s shows %q", place, text)
		}
	}
	if doc.Get("sops") != nil {
		t.Error("the metadata is among the settings")
	}
	if at := doc.Get("db").Get("password").Pos; at.Line != 27 || at.Column != 15 {
		t.Errorf("the password is at %v", at)
	}
}

func TestAChangedSecretChangesOnlyItsOwnFingerprint(t *testing.T) {
	r := ring(t, "first.txt")
	before, after := secrets(decrypt(t, "default.yaml", r), ""), secrets(decrypt(t, "edited.yaml", r), "")
	for place := range before {
		if changed := before[place] != after[place]; changed != (place == "db.password") {
			t.Errorf("%s: %s, then %s", place, before[place], after[place])
		}
	}
	rotated := secrets(decrypt(t, "rotated.yaml", r), "")
	if rotated["db.password"] == before["db.password"] {
		t.Error("the fingerprint does not depend on the data key")
	}
}

func TestEqualSecretsAtTwoPlacesLookDifferent(t *testing.T) {
	got := secrets(decrypt(t, "default.yaml", ring(t, "first.txt")), "")
	if got["yes_word"] == got["looks_boolean"] {
		t.Error("that two secrets are equal can be seen")
	}
}

func TestVeiledFilesShowAChangeWithoutAnIdentity(t *testing.T) {
	veiled := func(name string) map[string]string {
		doc, err := sops.Masked(parse(t, name, read(t, name)))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(doc.Any(), doc.Reveal()) {
			t.Errorf("%s: something was decrypted", name)
		}
		return secrets(doc, "")
	}
	before, after := veiled("default.yaml"), veiled("edited.yaml")
	if len(before) != len(secrets(decrypt(t, "default.yaml", ring(t, "first.txt")), "")) {
		t.Errorf("%d secrets are seen", len(before))
	}
	for place := range before {
		if changed := before[place] != after[place]; changed != (place == "db.password") {
			t.Errorf("%s: %s, then %s", place, before[place], after[place])
		}
	}
}

// line returns the line of a file that begins with a key.
func line(t *testing.T, text, key string) string {
	t.Helper()
	for l := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(l), key) {
			return l
		}
	}
	t.Fatalf("no %s", key)
	return ""
}

func TestAFileThatWasTamperedWithIsRefused(t *testing.T) {
	text := read(t, "default.yaml")
	value := func(key string) string {
		_, v, _ := strings.Cut(strings.TrimSpace(line(t, text, key)), ": ")
		v, _, _ = strings.Cut(v, " #")
		return v
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"value of another place", value("text:"), value("unicode:"), "default.yaml:2:7: text: cannot decrypt it"},
		{"value in plain text", value("number:"), "42", "default.yaml:3:9: number: it is not encrypted"},
		{"type", strings.TrimSpace(line(t, text, "number:")), strings.TrimSuffix(strings.TrimSpace(line(t, text, "number:")), "int]") + "bool]", "number: its plain value is not of type bool"},
		{"key of a secret", "number:", "numbers:", "numbers: cannot decrypt it"},
		{"value that is not secret", "below: shown too", "below: shown two", "the mac does not match"},
		{"value removed", line(t, text, "hex:"), "", "the mac does not match"},
		{"order", line(t, text, "number:") + line(t, text, "negative:"), line(t, text, "negative:") + line(t, text, "number:"), "the mac does not match"},
		{"value added", "public_unencrypted: shown", "public_unencrypted: shown\n    more_unencrypted: x", "the mac does not match"},
		{"mac", value("mac:"), value("text:"), "cannot decrypt the mac"},
		{"no mac", line(t, text, "mac:"), "", "there is no mac"},
		{"date", value("lastmodified:"), `"2020-01-01T00:00:00Z"`, "cannot decrypt the mac"},
		{"no date", value("lastmodified:"), `"yesterday"`, `"yesterday"`},
		{"rule", "unencrypted_suffix: _unencrypted", "unencrypted_suffix: xt", "default.yaml:"},
		{"two rules", "unencrypted_suffix: _unencrypted", "unencrypted_suffix: _unencrypted\n    encrypted_regex: a", "more than one rule: unencrypted_suffix, encrypted_regex"},
		{"bad expression", "unencrypted_suffix: _unencrypted", "unencrypted_regex: '('", "cannot use unencrypted_regex"},
		{"key groups", "    version:", "    key_groups: [{}]\n    version:", "key groups"},
		{"metadata of another kind", text[strings.Index(text, "sops:"):], "sops: x\n", "must be the metadata of sops"},
		{"no recipients", "    age:", "    other:", "no age recipient"},
		{"data key", "YWdlLWVuY3J5cHRpb24", "YWdlLWVuY3J5cHRpb25", "cannot decrypt the data key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(text, c.old, c.new, 1)
			if changed == text {
				t.Fatalf("there is no %q", c.old)
			}
			doc, err := sops.Decrypt(parse(t, "default.yaml", changed), ring(t, "first.txt"))
			if err == nil || doc != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			for _, word := range []string{"hunter2", "s3cr3t", "a plain text"} {
				if err != nil && strings.Contains(err.Error(), word) {
					t.Errorf("a secret is told: %v", err)
				}
			}
		})
	}
}

// TestTheMACCoversNoPlainKeys holds what SECURITY.md says of the format: it covers values one after the other, and of the
// keys those above an encrypted value.
func TestTheMACCoversNoPlainKeys(t *testing.T) {
	text := read(t, "default.yaml")
	for name, changed := range map[string]string{
		"renamed": strings.Replace(text, "public_unencrypted: shown", "renamed_unencrypted: shown", 1),
		"split":   strings.Replace(text, "public_unencrypted: shown", "public_unencrypted: sho\n    more_unencrypted: wn", 1),
	} {
		if changed == text {
			t.Fatalf("%s: the file is as it was", name)
		}
		if _, err := sops.Decrypt(parse(t, name, changed), ring(t, "first.txt")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMACOfEncryptedValuesAloneLeavesTheRestOpen(t *testing.T) {
	r := ring(t, "first.txt")
	text := strings.Replace(read(t, "mac_only.yaml"), "text: a plain text", "text: another", 1)
	if doc, err := sops.Decrypt(parse(t, "mac_only.yaml", text), r); err != nil || doc.Get("text").Value != "another" {
		t.Error(err)
	}
	text = strings.Replace(read(t, "mac_only.yaml"), "mac_only_encrypted: true", "mac_only_encrypted: false", 1)
	if _, err := sops.Decrypt(parse(t, "mac_only.yaml", text), r); err == nil {
		t.Error("the code of one kind passes for that of the other")
	}
}

func TestAFileThatNoIdentityDecryptsIsAnError(t *testing.T) {
	doc := parse(t, "default.yaml", read(t, "default.yaml"))
	for _, c := range []struct {
		ring *sops.Ring
		want string
	}{
		{nil, "the master has no identity"},
		{ring(t), "the master has no identity"},
		{ring(t, "second.txt"), "none of its recipients (age13qcsp30rmvztyzhmskt6neljz44sph4rajdqm5tnvyt5mfh7ksnqx3kcq6) is an identity"},
	} {
		if _, err := sops.Decrypt(doc, c.ring); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "default.yaml:62:5: sops: ") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestIdentitiesOthersCanReadAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities")
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{read(t, "first.txt"), 0o640, "mode 0600"},
		{read(t, "first.txt"), 0o604, "mode 0600"},
		{"AGE-SECRET-KEY-1WRONG\n", 0o600, "as age-keygen writes them"},
		{"# nothing\n", 0o600, "as age-keygen writes them"},
		{strings.Repeat("#\n", 40_000), 0o600, "more than 65536 bytes"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := sops.ReadRing(file)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "WRONG") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if _, err := sops.ReadRing(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error for a file that is not there")
	}
}

func TestRingsOfEqualFilesAreEqual(t *testing.T) {
	if !ring(t, "first.txt").Equal(ring(t, "first.txt")) || ring(t, "first.txt").Equal(ring(t, "second.txt")) ||
		ring(t, "first.txt").Equal(ring(t, "first.txt", "second.txt")) || ring(t).Equal(nil) {
		t.Error("equal rings differ, or others do not")
	}
}

func FuzzDecrypt(f *testing.F) {
	r, known := ring(f, "first.txt"), map[any]bool{}
	for _, name := range append(files, "plain.yaml", "hybrid.yaml", "edited.yaml") {
		f.Add(read(f, name))
		if doc := parse(f, name, read(f, name)); sops.Encrypted(doc) {
			if opened, err := sops.Decrypt(doc, r); err == nil {
				plainSecrets(opened, known)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := strictyaml.Parse("f", []byte(text))
		if err != nil || !sops.Encrypted(doc) {
			return
		}
		veiled, err := sops.Masked(doc)
		if err == nil && !reflect.DeepEqual(veiled.Any(), veiled.Reveal()) {
			t.Fatal("something was decrypted without an identity")
		}
		opened, err := sops.Decrypt(doc, r)
		if err != nil {
			return
		}
		found := map[any]bool{}
		plainSecrets(opened, found)
		for secret := range found {
			if !known[secret] {
				t.Fatalf("a secret that nobody has encrypted: %v", secret)
			}
		}
		for place, shown := range secrets(opened, "") {
			if !strings.HasPrefix(shown, sops.Shown) {
				t.Fatalf("%s shows %q", place, shown)
			}
		}
	})
}

func plainSecrets(n *strictyaml.Node, into map[any]bool) {
	if n.Secret != nil {
		into[n.Secret] = true
	}
	for _, e := range n.List {
		plainSecrets(e, into)
	}
	for _, p := range n.Map {
		plainSecrets(p.Value, into)
	}
}
