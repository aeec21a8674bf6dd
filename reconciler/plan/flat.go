package plan

import (
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// flattenStates adds one value for each state: the state with the hashes of its files, so that a changed content
// changes the value. The order of the states makes no difference.
func flattenStates(states map[string]any, compiled any, flat map[string]string) error {
	extra, _ := compiled.(map[string]any)
	files, _ := extra["files"].(map[string]any)
	paths := slices.Sorted(maps.Keys(files))
	for name, s := range states {
		encoded, err := canon.Marshal([]any{s, hashesOf(files, paths, state.ValueOf(s).Source())})
		if err != nil {
			return err
		}
		flat[state.Key+"."+name] = string(encoded)
	}
	return nil
}

// FunctionOf returns the function of a state that [Flatten] has encoded, "" if it has none.
func FunctionOf(flat string) string {
	var encoded []any
	if err := canon.Unmarshal([]byte(flat), &encoded); err != nil || len(encoded) == 0 {
		return ""
	}
	return state.ValueOf(encoded[0]).Function
}

// hashesOf returns the path, the hash and the mode of each file of a source. paths are those of all files, sorted.
func hashesOf(files map[string]any, paths []string, source string) []any {
	var hashes []any
	add := func(path string) {
		file, _ := files[path].(map[string]any)
		hashes = append(hashes, path, file["sha256"], file["mode"])
	}
	if source == "" {
		return nil
	}
	if _, isFile := files[source]; isFile {
		add(source)
		return hashes
	}
	for _, path := range paths {
		if state.IsWithin(path, source) {
			add(path)
		}
	}
	return hashes
}
