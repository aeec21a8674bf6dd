package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestArgumentsAreReadAsYAML(t *testing.T) {
	bytes := filepath.Join(t.TempDir(), "bytes")
	if err := os.WriteFile(bytes, []byte("\xff\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]any{
		"k=3":              int64(3),
		"k=-3":             int64(-3),
		"k=1.5":            1.5,
		"k=true":           true,
		"k=yes":            "yes",
		"k=null":           nil,
		"k=~":              nil,
		"k=":               "",
		`k="3"`:            "3",
		"k='true'":         "true",
		`k="a" b`:          `"a" b`,
		"k=a: b":           "a: b",
		"k=[1, 2]":         "[1, 2]",
		"k={a: 1}":         "{a: 1}",
		"k=- a":            "- a",
		"k=echo $HOME | x": "echo $HOME | x",
		"k=a=b":            "a=b",
		"k=two\nlines":     "two\nlines",
		"k=" + bytes:       bytes,
		"k=@" + bytes:      []byte("\xff\x00"),
		`k="@home"`:        "@home",
		"k:=[1, {a: b}]":   []any{int64(1), map[string]any{"a": "b"}},
		"k:=3":             int64(3),
		"k:=":              nil,
	} {
		id, args, err := parseArguments("cmd.run", []string{word})
		if err != nil || id != "" || !reflect.DeepEqual(args, map[string]any{"k": want}) {
			t.Errorf("%q gives ID %q, %#v, %v; want %#v", word, id, args, err, want)
		}
	}
}

func TestAWordWithoutEqualsSignIsTheIDArgument(t *testing.T) {
	for _, word := range []string{"uptime", "echo a=b", "=x", "3=x", "./run.sh --a=b", "a b:=c"} {
		id, args, err := parseArguments("cmd.run", []string{word, "k=v"})
		if err != nil || id != word || len(args) != 1 {
			t.Errorf("%q gives ID %q, %v, %v", word, id, args, err)
		}
	}
}

func TestAListTakesSeveralWords(t *testing.T) {
	id, args, err := parseArguments("state.apply", []string{"web.nginx", "test=True", "db,mail"})
	if err != nil || id != "web.nginx db,mail" || !reflect.DeepEqual(args, map[string]any{"test": true}) {
		t.Errorf("%q, %v, %v", id, args, err)
	}
	if id, _, err := parseArguments("cmd.run", []string{"echo", "a"}); err == nil {
		t.Errorf("cmd.run takes %q", id)
	}
}

func FuzzArguments(f *testing.F) {
	for _, word := range []string{"k=3", "k:=[1, {a: b}]", `k="`, "k:=&a *a", "k=1_0", "k:=!!binary x", "echo a=b", "k=0x1p-2"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if id, args, err := parseArguments("cmd.run", []string{word}); err == nil && (id == "") == (len(args) == 0) && word != "" {
			t.Errorf("%q gives ID %q and %v", word, id, args)
		}
	})
}
