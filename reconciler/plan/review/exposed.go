package review

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A secret is a secret in the settings of peels.
type secret struct {
	placeholder string
	file        string // the file that it comes from
}

// secretsOf returns the secrets of one side, by path.
func (s side) secretsOf() map[string]secret {
	placeholders := map[string]string{}
	findSecrets("", s.values, placeholders)
	findSecrets("schedule.", s.entries, placeholders)
	files := map[string]string{}
	if len(placeholders) > 0 {
		files = s.e.SecretFiles()
	}
	all := make(map[string]secret, len(placeholders))
	for path, placeholder := range placeholders {
		all[path] = secret{placeholder, files[path]}
	}
	for path, f := range s.states.Files {
		if f.Secret {
			all[path] = secret{f.SHA256, path}
		}
	}
	return all
}

// expose warns of a secret that is new to peels, and of an entry or state with a secret whose function or arguments
// change. A secret is not new if the base had one at the same path from the same file, as its value may change, or the
// same one from another file, as a file may be renamed.
func (c *comparison) expose(before, after side, peels []target.PeelID) {
	had := before.secretsOf()
	for path, now := range after.secretsOf() {
		switch old, has := had[path]; {
		case !has:
			c.warn("the secret "+path+" goes to peels that did not have it", peels)
		case old.placeholder != now.placeholder && old.file != now.file:
			c.warn(fmt.Sprintf("the secret %s of %s goes to peels that had another one at its place", path, now.file),
				peels)
		}
	}
	for name, entry := range after.entries {
		held := map[string]string{}
		findSecrets("", entry, held)
		if len(held) > 0 && before.entries[name] != nil &&
			!reflect.DeepEqual(command(before.entries[name]), command(entry)) {
			c.warn("schedule."+name+" has a secret, and its function or arguments change", peels)
		}
	}
	for name, now := range after.states.States {
		held := map[string]string{}
		findSecrets("", now.Args, held)
		old, had := before.states.States[name]
		if len(held) > 0 && had && (old.Function != now.Function ||
			!reflect.DeepEqual(withoutSecrets(old.Args), withoutSecrets(now.Args))) {
			c.warn(state.Key+"."+name+" has a secret, and its function or arguments change", peels)
		}
	}
}

// isSecret reports whether a text is a masked secret.
func isSecret(text string) bool { return strings.HasPrefix(text, sops.Shown) }

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

// findSecrets adds the placeholders of all secrets in a value to found, by path: keys and indices joined with dots.
func findSecrets(above string, in any, found map[string]string) {
	switch v := in.(type) {
	case string:
		if strings.HasPrefix(v, sops.Shown) {
			found[strings.TrimSuffix(above, ".")] = v
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

// command returns the function and arguments of an entry, with every secret replaced by the same text.
func command(entry any) any {
	fields, _ := entry.(map[string]any)
	return []any{fields["module"], fields["command"], withoutSecrets(fields["args"]), withoutSecrets(fields["payload"])}
}

func withoutSecrets(in any) any {
	switch v := in.(type) {
	case string:
		if strings.HasPrefix(v, sops.Shown) {
			return sops.Shown
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = withoutSecrets(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = withoutSecrets(inner)
		}
		return out
	}
	return in
}
