package audit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/private"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/state"
)

const (
	entryName    = 100  // bytes of an argument's name in an audit entry
	entryValue   = 1024 // bytes of an argument's value
	redactedMark = "•••"
)

// Actions of the entries of [Dispatch].
const (
	ActionDispatch = "job.dispatch"
	actionSecrets  = "secrets.show"
	actionCancel   = "job.cancel"
)

// Dispatch returns the entry of a request for a job that ended with err; refused says that err is a refusal, as in
// [audit.Entry.Ended]. The entry has the targets, the function with its arguments, and the job's ID.
func Dispatch(spec *job.Spec, err error, refused bool) Entry {
	e := Entry{
		Action:   ActionDispatch,
		Target:   spec.TargetExpr,
		Function: spec.Function,
		JID:      spec.JID,
		Count:    len(spec.Targets),
		Agent:    spec.Metadata[job.MetaAgent],
		Held:     spec.Metadata[job.MetaHeld],
	}
	e.Args, e.hidden = entryArgs(spec)
	if catalogue.AsksForSecrets(spec.Args) {
		e.Action = actionSecrets
	}
	if len(spec.Targets) > 0 {
		peels := slices.Sorted(slices.Values(spec.Targets))
		for _, id := range peels[:min(len(peels), MaxPeels)] {
			e.Peels = append(e.Peels, string(id))
		}
		e.PeelsHash = PeelsHash(peels)
	}
	return e.Ended(err, refused)
}

// entryArgs writes the arguments of a job as NAME=JSON. Each value is cut to entryValue bytes, so that a long one
// leaves room for the others, and values that may be secret are hidden. If a value was cut or hidden, the second result
// is a hash of all of them.
func entryArgs(spec *job.Spec) (text string, hidden []byte) {
	args := maps.Clone(spec.Args)
	if args == nil {
		args = map[string]any{}
	}
	if spec.StateID != "" {
		args["id"] = spec.StateID
	}
	var parts []string
	full := sha256.New()
	isWhole := true
	for _, name := range slices.Sorted(maps.Keys(args)) {
		shown, value := jsonOf(redacted(name, args[name])), jsonOf(args[name])
		part := Bounded(name, entryName) + "=" + Bounded(shown, entryValue)
		isWhole = isWhole && part == name+"="+value
		fmt.Fprintf(full, "%q=%q\n", name, value)
		parts = append(parts, part)
	}
	text = strings.Join(parts, " ")
	if !isWhole || len(text) > maxArgs {
		hidden = full.Sum(nil)
	}
	return text, hidden
}

func jsonOf(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "?"
	}
	return strings.TrimSpace(text.String())
}

// redacted returns an argument's value with possible secrets hidden, at any depth: values of environment variables, of
// other arguments of states that may hold secrets, such as stdin and content, and of arguments whose name looks secret.
func redacted(name string, value any) any {
	if name != "env" && state.MaySecret(name) || private.LooksSecret(name) {
		return redactedMark
	}
	switch value := value.(type) {
	case map[string]any:
		shown := make(map[string]any, len(value))
		for key, v := range value {
			if shown[key] = redacted(key, v); name == "env" {
				shown[key] = redactedMark
			}
		}
		return shown
	case []any:
		shown := make([]any, len(value))
		for i, v := range value {
			shown[i] = redacted(name, v)
		}
		return shown
	}
	if name == "env" {
		return redactedMark
	}
	return value
}
