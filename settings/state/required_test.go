package state

import (
	"maps"
	"slices"
	"testing"
)

// A state that is run by itself brings along all that it needs, by each kind of requisite.
func TestWhatAStateNeedsIsRunWithIt(t *testing.T) {
	set, err := Parse(node(t, `
require: {cmd.run: {command: "true"}}
watch: {cmd.run: {command: "true"}}
onchanges: {cmd.run: {command: "true"}}
onfail: {cmd.run: {command: "true"}}
require_in: {cmd.run: {command: "true"}, require_in: [web]}
watch_in: {cmd.run: {command: "true"}, watch_in: [web]}
onchanges_in: {cmd.run: {command: "true"}, onchanges_in: [web]}
far: {cmd.run: {command: "true"}, require_in: [require]}
other: {cmd.run: {command: "true"}, require: [web]}
of_file: {cmd.run: {command: "true"}}
web: {service.running: {}, require: [require, "file:common"], watch: [watch], onchanges: [onchanges], onfail: [onfail]}
`), Options{Files: commonFile})
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(set.Required([]string{"web"}, commonFile)))
	want := []string{"far", "of_file", "onchanges", "onchanges_in", "onfail", "require", "require_in", "watch", "watch_in", "web"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func commonFile(ref string) []string {
	if ref == "common" {
		return []string{"of_file"}
	}
	return nil
}
