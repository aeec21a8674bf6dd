package schedule

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// keys returns the names of all keys of entries, those in maps after the map.
func keys(above string, schema *Schema) (list []string) {
	for name, s := range schema.Properties {
		if above == "" && fieldOf[name] != nil && fieldOf[name].alias == name {
			continue
		}
		list = append(list, above+name)
		for _, alternative := range s.AnyOf {
			list = append(list, keys(above+name+".", alternative)...)
		}
	}
	return list
}

// TestTheReferenceHasEveryKey checks names only; TestExamplesOfTheReferenceAreEntries checks what is said of them.
func TestTheReferenceHasEveryKey(t *testing.T) {
	entry := LayerSchema().Additional.(*Schema)
	want := keys("", entry)
	var got []string
	for _, f := range Reference() {
		got = append(got, f.Name)
		if f.About == "" || f.Type == "" || f.Since == "" || !strings.HasSuffix(f.About, ".") {
			t.Errorf("%s is not described: %+v", f.Name, f)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the reference has\n%v\nand entries have\n%v", got, want)
	}
	if d := entry.Properties["timeout"].Description; !strings.Contains(d, "longest time") || !strings.Contains(d, "Default: no limit.") {
		t.Errorf("the schema says of timeout: %q", d)
	}
}

// Every example is an entry that has the key, and is another entry without it, unless the default was written.
func TestExamplesOfTheReferenceAreEntries(t *testing.T) {
	for _, f := range Reference() {
		t.Run(f.Name, func(t *testing.T) {
			text := "backup: {module: test.ping, interval: 1d}\nx:\n  " + strings.ReplaceAll(f.Example, "\n", "\n  ")
			node, err := strictyaml.Parse("example.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ParseSet(node); err != nil {
				t.Errorf("%v\n%s", err, text)
			}

			at := node.Get("x")
			for name := range strings.SplitSeq(f.Name, ".") {
				if at = at.Get(name); at == nil {
					t.Fatalf("the example has no %s:\n%s", f.Name, f.Example)
				}
			}
		})
	}
}

// TestDefaultsOfTheReference compares what the reference says with [New], for defaults that are words or numbers.
func TestDefaultsOfTheReference(t *testing.T) {
	for _, f := range Reference() {
		if f.Default == "" || strings.Contains(f.Name, ".") || !isValue(f) || f.Name == "only_between" {
			continue
		}
		timing := "interval: 1h"
		switch {
		case f.Name == "phase":
			timing = "interval: 1h, interval_from: epoch"
		case strings.HasPrefix(f.Name, "dst_"):
			timing = "cron: 0 3 * * *"
		}
		plain := one(t, "module: test.ping, "+timing)
		given := one(t, "module: test.ping, "+timing+", "+f.Name+": "+strings.TrimSuffix(f.Default, ": never"))
		if !reflect.DeepEqual(plain, given) {
			t.Errorf("%s: %s is not the default:\n%+v\n%+v", f.Name, f.Default, plain, given)
		}
	}
}

// TestThePageOfTheGuideIsTheReference compares the page with the reference; -update writes it.
func TestThePageOfTheGuideIsTheReference(t *testing.T) {
	const file = "../../cmd/zester/guide/entry.md"
	got := []byte(Page())
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date; run go test ./settings/schedule -update", file)
	}
}

// isValue reports whether the default can be written as it stands.
func isValue(f Field) bool {
	return !strings.Contains(f.Default, " ") && f.Default != "none" || f.Name == "pause_after_errors"
}

func one(t *testing.T, fields string) *Entry {
	t.Helper()
	node, err := strictyaml.Parse("f", []byte("x: {"+fields+"}"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := ParseSet(node)
	if err != nil {
		t.Fatal(err)
	}
	return set["x"]
}

// An unknown key of an entry, or of a map in it, is answered with the keys that exist: all of eight, or the nearest three.
func TestAnUnknownKeyNamesKeysThatExist(t *testing.T) {
	parents := map[string][]string{"": nil}
	for _, f := range Reference() {
		parent, _, _ := cutLast(f.Name)
		parents[parent] = append(parents[parent], f.Name[len(parent):])
	}
	if len(parents) < 5 {
		t.Fatalf("the reference has the maps %v", parents)
	}
	for parent, known := range parents {
		text := "zzqqzz: 1"
		if parent != "" {
			text = parent + ": {zzqqzz: 1}"
		}
		node, err := strictyaml.Parse("f", []byte("x: {module: test.ping, interval: 1h, "+text+"}"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = ParseSet(node)
		all := regexp.MustCompile(`zzqqzz: unknown (?:key|field); (the keys are|the nearest of \d+ keys are) ([a-z_, ]+)`).FindStringSubmatch(fmt.Sprint(err))
		if all == nil {
			t.Errorf("%q: %v", parent, err)
			continue
		}
		named := strings.Split(all[2], ", ")
		if few := all[1] == "the keys are"; few && len(named) > 8 || !few && len(named) != 3 {
			t.Errorf("%q: %d keys are named: %v", parent, len(named), err)
		}
		for _, name := range named {
			if !slices.Contains(known, "."+name) && !slices.Contains(known, name) {
				t.Errorf("%q: the reference has no %s, but %v", parent, name, known)
			}
		}
	}
}

func cutLast(name string) (parent, last string, found bool) {
	if i := strings.LastIndex(name, "."); i >= 0 {
		return name[:i], name[i+1:], true
	}
	return "", name, false
}
