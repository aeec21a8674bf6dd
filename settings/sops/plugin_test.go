package sops_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/plugin"

	"github.com/seed-c01c3da5/zester/settings/sops"
)

// keeper is the program of a plugin that has its identities in a file: this test, under the name age-plugin-keeper.
const keeper = "age-plugin-keeper"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != keeper {
		os.Exit(m.Run())
	}
	p, err := plugin.New("keeper")
	if err != nil {
		panic(err)
	}
	p.HandleIdentity(func(file []byte) (age.Identity, error) {
		f, err := os.Open(string(file))
		if err != nil {
			return nil, errors.New("the token is not plugged in")
		}
		identities, err := age.ParseIdentities(f)
		if err != nil {
			return nil, err
		}
		return identities[0], nil
	})
	os.Exit(p.Main())
}

// keeperOf has the plugin in the path, and returns a file of identities that names it with a file of its own.
func keeperOf(t *testing.T, own, beside string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, keeper)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	file := filepath.Join(dir, "identities")
	if err := os.WriteFile(file, []byte("# outside\n"+plugin.EncodeIdentity("keeper", []byte(own))+"\n"+beside), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAPluginOfAgeKeepsTheKeyOutside(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	text := read(t, "first.txt")
	if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := decrypt(t, "default.yaml", ring(t, "first.txt"))
	for _, beside := range []string{"", read(t, "second.txt")} {
		r, err := sops.ReadRing(keeperOf(t, own, beside))
		if err != nil {
			t.Fatal(err)
		}
		if doc := decrypt(t, "default.yaml", r); doc.Reveal() == nil || len(want.Reveal().(map[string]any)) != len(doc.Reveal().(map[string]any)) {
			t.Errorf("%v", doc.Any())
		}
	}
	r, err := sops.ReadRing(keeperOf(t, own+".none", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sops.Decrypt(parse(t, "default.yaml", read(t, "default.yaml")), r); err == nil || !strings.Contains(err.Error(), "not plugged in") {
		t.Errorf("without its token: %v", err)
	}
	for _, beside := range []string{"AGE-SECRET-KEY-1WRONG\n", plugin.EncodeIdentity("keeper", nil) + "x\n"} {
		if _, err := sops.ReadRing(keeperOf(t, own, beside)); err == nil || strings.Contains(err.Error(), "WRONG") {
			t.Errorf("%q is read: %v", beside, err)
		}
	}
}

func TestAPluginThatIsMissingDecryptsNothing(t *testing.T) {
	file := keeperOf(t, "x", "")
	t.Setenv("PATH", t.TempDir())
	r, err := sops.ReadRing(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sops.Decrypt(parse(t, "default.yaml", read(t, "default.yaml")), r); err == nil || !strings.Contains(err.Error(), keeper) {
		t.Errorf("%v", err)
	}
}
