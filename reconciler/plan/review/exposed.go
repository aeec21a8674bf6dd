package review

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// expose warns of a secret that goes to peels which did not have it, and of an entry with a secret whose function or
// arguments change.
func (c *comparison) expose(before, after side, peels []target.PeelID) {
	old, latest := map[string]bool{}, map[string]bool{}
	findSecrets("", before.values, old)
	findSecrets("schedule.", before.entries, old)
	findSecrets("", after.values, latest)
	findSecrets("schedule.", after.entries, latest)
	for key := range latest {
		if !old[key] {
			c.warn("the secret "+key+" goes to peels that did not have it", peels)
		}
	}
	for name, entry := range after.entries {
		held := map[string]bool{}
		findSecrets("", entry, held)
		if len(held) > 0 && before.entries[name] != nil && !reflect.DeepEqual(command(before.entries[name]), command(entry)) {
			c.warn("schedule."+name+" has a secret, and its function or arguments change", peels)
		}
	}
}

func (c *comparison) warn(text string, peels []target.PeelID) {
	c.exposed[text] = append(c.exposed[text], peels...)
}

// exposures returns the warnings, each with its peels.
func (c *comparison) exposures() (all []string) {
	for _, text := range slices.Sorted(maps.Keys(c.exposed)) {
		peels := c.exposed[text]
		slices.Sort(peels)
		all = append(all, fmt.Sprintf("%s: %s", text, Names(peels)))
	}
	return all
}

// findSecrets adds the paths of all secrets in a value to found, keys joined with dots.
func findSecrets(above string, in any, found map[string]bool) {
	switch v := in.(type) {
	case string:
		if strings.HasPrefix(v, sops.Shown) {
			found[strings.TrimSuffix(above, ".")] = true
		}
	case map[string]any:
		for key, inner := range v {
			findSecrets(above+key+".", inner, found)
		}
	case []any:
		for i, inner := range v {
			findSecrets(fmt.Sprintf("%s%d.", above, i), inner, found)
		}
	}
}

// command returns the function and arguments of an entry, every secret replaced by the same text.
func command(entry any) any {
	fields, _ := entry.(map[string]any)
	return []any{fields["module"], fields["command"], alike(fields["args"]), alike(fields["payload"])}
}

func alike(in any) any {
	switch v := in.(type) {
	case string:
		if strings.HasPrefix(v, sops.Shown) {
			return sops.Shown
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = alike(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = alike(inner)
		}
		return out
	}
	return in
}
