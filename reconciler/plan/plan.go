// Package plan compiles a revision: from its files and the facts of a fleet to the settings of every peel.
//
// Call [NewCompiler] and then [Compiler.Compile] for each revision. It reads zester.yaml, top.yaml, top.d/*.yaml and
// every settings file, and returns a [Plan], or an [*Error] with all mistakes. With on_error: isolate, and for a
// revision that is already in force, a mistake holds back only the peels whose settings depend on it; a mistake in
// zester.yaml or a top file always refuses the revision, as it may concern any peel.
//
// The ordered list of files that apply to a peel is its signature. Each signature is merged, checked and encoded once,
// and its peels share one [Effective]: equal peels get equal bytes, and the cost follows the number of signatures, not
// of peels. Directories, files and signatures that have not changed since the last two revisions are not read again.
//
// Package plan reads the files, package diff compares a plan with the previous settings and blocks a change over the
// limits, package blame finds the commit of each entry.
//
// Guarantees:
//   - Nothing here reads a clock, or does other input and output than reading the tree.
//   - Results are deterministic: the same tree and facts give the same bytes, the same errors in the same order and the
//     same hashes.
//   - Secrets are in files of SOPS. A compiler with identities decrypts them; its plans hold a placeholder for each
//     secret. Only [Effective.Seal] uses the plain values, which no other package can read. Digests cover the
//     placeholders, so they change with a secret and reveal nothing of it.
package plan

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// A Plan holds the settings of every peel of a fleet at one revision. It is immutable.
type Plan struct {
	// Peels holds all members of the fleet except those in Behind; a peel that no rule matches has an Effective without
	// settings.
	Peels map[target.PeelID]*Effective
	// Behind holds the members that keep their present settings, each with the mistake in its new ones. It is empty
	// unless mistakes are isolated.
	Behind map[target.PeelID]strictyaml.Error
	// Mistakes holds all errors of a revision whose mistakes are isolated, nil if there are none.
	Mistakes *Error
	// Warnings are about valid settings that are probably not intended, sorted by position.
	Warnings []Warning
	// TopEmpty reports that there are no rules at all.
	TopEmpty bool
	// Groups are the repo's node groups by name, each as the words in the file.
	Groups map[string][]string
	// Waves, Freezes and Limits are the rules for the revisions that come after this one, once it is in force.
	Waves   []policy.Wave
	Freezes []policy.Freeze
	Limits  policy.Limits
	// Alerts are the repo's alert rules, by name.
	Alerts []policy.Alert

	loose []*DeclaredEntry // the entries of Check, which knows no peels
	files map[string]*File // of the settings directory, by path
	read  *ContentReader   // of the revision
	rules *top.File        // nil if the plan mixes two others
	fleet *peelindex.Index

	assigned *assignment  // the signatures of Peels and Behind; nil after HoldBack
	results  []*Effective // of the signatures of assigned; nil for a signature that is behind
}

// Safety returns the limits, waves and freezes of the revision.
func (p *Plan) Safety() policy.Safety {
	return policy.Safety{Limits: &p.Limits, Waves: p.Waves, Freezes: p.Freezes}
}

// Rules returns the rules of the top file, in order; none if the plan mixes two others.
func (p *Plan) Rules() []top.Rule {
	if p.rules == nil {
		return nil
	}
	return p.rules.Rules
}

// Select returns the members of the fleet that an expression selects, in no order.
func (p *Plan) Select(e *target.Expr) []target.PeelID { return p.fleet.Select(e) }

// Facts returns the facts of a member of the fleet.
func (p *Plan) Facts(id target.PeelID) target.Facts {
	facts, _ := p.fleet.Get(id)
	return facts
}

// A Warning is about a place in the revision; a Pos without a line is about the whole file.
type Warning struct {
	Pos strictyaml.Pos
	Msg string
}

func warningf(at strictyaml.Pos, format string, args ...any) Warning {
	return Warning{Pos: at, Msg: fmt.Sprintf(format, args...)}
}

func (w Warning) String() string { return w.Pos.String() + ": " + w.Msg }

// Effective holds the settings of the peels of one signature. It is shared and immutable; two plans of one [Compiler]
// have the same pointer for a signature that did not change.
type Effective struct {
	Refs     []string // in merge order
	Settings canon.Raw
	Digest   settings.Digest
	Schedule schedule.Set
	// Entries holds the position of each entry of Schedule: its key in the last file that sets a part of it.
	Entries map[string]strictyaml.Pos
	// States are the states in the order in which they run, and Compiled what the peel gets beside them. Secret
	// contents have their keys here, which must not be shown.
	States   state.Set
	Compiled state.Compiled

	source map[string]string // see [state.Expanded]

	flat atomic.Pointer[map[string]string] // of Settings, nil until it is needed

	files  []*File          // one for each of Refs
	read   *ContentReader   // of the revision that e was compiled from; nil without states
	secret *strictyaml.Node // one secret of merged, nil if there is none
	merged *strictyaml.Node // the settings before encoding, nil if there is no secret
	plain  canon.Raw        // Settings with their secrets, nil if there are none
}

// Values returns the settings as plain values. The caller may change them.
func (e *Effective) Values() (map[string]any, error) {
	var values map[string]any
	if err := canon.Unmarshal(e.Settings, &values); err != nil {
		return nil, fmt.Errorf("cannot read the settings of %s: %w", strings.Join(e.Refs, ", "), err)
	}
	return values, nil
}

// Flat returns the result of [Flatten] for the settings. The caller must not change it.
func (e *Effective) Flat() (map[string]string, error) {
	if known := e.flat.Load(); known != nil {
		return *known, nil
	}
	values, err := e.Values()
	if err != nil {
		return nil, err
	}
	flat, err := Flatten(values)
	if err == nil {
		e.flat.Store(&flat)
	}
	return flat, err
}

// Flatten returns the encoded values of settings, without the schedule, by path: keys joined with dots. A list, an
// empty map, and a state with the hashes of its files is one value.
func Flatten(values map[string]any) (map[string]string, error) {
	flat := map[string]string{}
	for key, value := range values {
		if key == "schedule" || key == state.CompiledKey {
			continue
		}
		if states, ok := value.(map[string]any); ok && key == state.Key {
			if err := flattenStates(states, values[state.CompiledKey], flat); err != nil {
				return nil, err
			}
			continue
		}
		if err := flatten(key, value, flat); err != nil {
			return nil, err
		}
	}
	return flat, nil
}

func flatten(path string, value any, flat map[string]string) error {
	if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
		for key, value := range inner {
			if err := flatten(path+"."+key, value, flat); err != nil {
				return err
			}
		}
		return nil
	}
	encoded, err := canon.Marshal(value)
	flat[path] = string(encoded)
	return err
}

// Files returns the files of Refs, in merge order.
func (e *Effective) Files() []*File { return e.files }

// SecretFiles returns the file of each secret that the settings hold, by its path: keys and indices of lists joined
// with dots.
func (e *Effective) SecretFiles() map[string]string {
	files := map[string]string{}
	if e.merged != nil {
		secretFiles("", e.merged, files)
	}
	return files
}

func secretFiles(at string, n *strictyaml.Node, files map[string]string) {
	if n.Secret != nil {
		files[strings.TrimSuffix(at, ".")] = n.Pos.File
	}
	for _, p := range n.Map {
		secretFiles(at+p.Key+".", p.Value, files)
	}
	for i, inner := range n.List {
		secretFiles(fmt.Sprintf("%s%d.", at, i), inner, files)
	}
}

// Secret returns the position of one secret of the settings; ok is false if they hold none.
func (e *Effective) Secret() (at strictyaml.Pos, ok bool) {
	if e.secret == nil {
		return at, false
	}
	return e.secret.Pos, true
}

// Seal puts the settings with their secrets into a document of e. Only the peel with the key to can open it.
func (e *Effective) Seal(doc *settings.Document, sealer *settings.Sealer, to settings.Key) error {
	return sealer.Seal(doc, e.plain, to)
}

// Document returns the document of one of the peels of e. It holds placeholders for secrets; call Seal if there are
// any.
func (e *Effective) Document(peel target.PeelID, commit settings.Commit, generation uint64,
	origins map[string]settings.Origin,
) *settings.Document {
	origins = withShortAuthors(origins)
	return &settings.Document{
		V: settings.OpenVersion, Peel: peel, Commit: commit, Generation: generation,
		Digest: e.Digest, Settings: e.Settings, Origins: origins,
	}
}

// The reasons for which a revision does not compile.
const (
	TopMissing   Reason = "TopMissing"   // there is no top.yaml
	TopIsSymlink Reason = "TopIsSymlink" // top.yaml is no regular file

)

// An Error lists the mistakes of a revision. Any other error of [Compiler.Compile] is about reading the tree, and not
// the fault of the revision.
type Error struct {
	Reason Reason // of the first error with another reason than Invalid; else Invalid
	Errors strictyaml.Errors
	More   int // errors that are not listed
}

// Error gives one line per error.
func (e *Error) Error() string {
	if e.More > 0 {
		return fmt.Sprintf("%v\nand %d more", e.Errors, e.More)
	}
	return e.Errors.Error()
}

// Unwrap returns the Errors.
func (e *Error) Unwrap() error { return e.Errors }

// problems collects the errors of a revision, each once: many signatures may have the same one.
type problems struct {
	all    map[strictyaml.Error]bool
	reason Reason
}

func (p *problems) add(reason Reason, errs ...strictyaml.Error) {
	if len(errs) == 0 {
		return
	}
	if p.all == nil {
		p.all, p.reason = map[strictyaml.Error]bool{}, Invalid
	}
	if p.reason == Invalid {
		p.reason = reason
	}
	for _, e := range errs {
		p.all[e] = true
	}
}

// err returns nil if there are no problems.
func (p *problems) err() *Error {
	if len(p.all) == 0 {
		return nil
	}
	e := &Error{Reason: p.reason}
	for one := range p.all {
		e.Errors = append(e.Errors, one)
	}
	sorting.Func(e.Errors, func(a, b strictyaml.Error) int {
		if c := a.Pos.Compare(b.Pos); c != 0 {
			return c
		}
		return strings.Compare(a.Path+"\x00"+a.Msg, b.Path+"\x00"+b.Msg)
	})
	if n := len(e.Errors); n > strictyaml.MaxErrors {
		e.Errors, e.More = e.Errors[:strictyaml.MaxErrors], n-strictyaml.MaxErrors
	}
	return e
}

// FirstOf returns the first names of all, at most most, separated by commas, and the number of the others.
func FirstOf[T ~string](all []T, most int) string {
	words := make([]string, 0, most)
	for _, one := range all[:min(most, len(all))] {
		words = append(words, string(one))
	}
	text := strings.Join(words, ", ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
