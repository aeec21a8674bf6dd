package grants

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// ErrNotAllowed: the caller may not do what was requested.
var ErrNotAllowed = errors.New("not allowed")

// Limits narrow what a credential may dispatch: they are a rule of its owner. The zero value allows everything.
type Limits struct {
	// Target is an expression. It is evaluated at each dispatch, so a peel is allowed as soon as it matches. An
	// expression with facts trusts what each host says about itself.
	Target    string   `json:"target,omitempty"`
	Functions []string `json:"functions,omitempty"` // globs such as "test.*"
}

// IsZero reports whether the limits allow everything.
func (l Limits) IsZero() bool { return l.Target == "" && len(l.Functions) == 0 }

const (
	maxGlobs = 64
	maxGlob  = 256 // bytes
)

// IsGlob reports whether a text is a glob of [path.Match] of at most 256 bytes.
func IsGlob(text string) bool {
	_, err := path.Match(text, "")
	return err == nil && text != "" && len(text) <= maxGlob
}

// Check checks the number and the form of the globs. The target is checked by [target.Parse], which needs the node
// groups.
func (l Limits) Check() error {
	if len(l.Functions) > maxGlobs {
		return fmt.Errorf("cannot limit to %d functions: the limit is %d", len(l.Functions), maxGlobs)
	}
	for _, glob := range l.Functions {
		if !IsGlob(glob) {
			return fmt.Errorf("cannot limit to the functions %.100q: want a glob such as test.* or cmd.run", glob)
		}
	}
	return nil
}

// Rule returns the limits as a rule about a person.
func (l Limits) Rule(name string) access.Rule {
	return access.Rule{
		From: "the limits of " + name,
		Who:  access.Who{Name: name},
		Actions: access.Actions{
			Verbs: []string{string(access.Dispatch)}, Target: l.Target, Functions: l.Functions,
		},
	}
}

// A Selector returns the peels that a target expression selects now, sorted.
type Selector func(ctx context.Context, expr string) ([]target.PeelID, error)

// Evaluate is [Evaluate] for a credential with the limits and without other rules. name is the name of the credential.
func (l Limits) Evaluate(ctx context.Context, name, function string, targets []target.PeelID, selects Selector) error {
	on := access.On{Function: function, Peels: targets}
	return Evaluate(ctx, []access.Rule{l.Rule(name)}, access.Who{Name: name}, on, selects)
}

// Evaluate returns [ErrNotAllowed] with the reason if the rules do not allow a person a job. selects evaluates the
// targets of the rules. If other peels of the job are allowed, the error is an [OutsideError].
func Evaluate(ctx context.Context, rules []access.Rule, who access.Who, on access.On, selects Selector) error {
	v, err := Decide(ctx, rules, who, on, selects)
	if err != nil {
		return err
	}
	return Refusal(v, who, access.Dispatch, on)
}

// Decide decides about a job of a person by rules, whose targets selects evaluates.
func Decide(ctx context.Context, rules []access.Rule, who access.Who, on access.On, selects Selector) (v access.Verdict,
	err error,
) {
	on.Selected = map[string][]target.PeelID{}
	for _, expr := range access.Targets(rules, who) {
		if on.Selected[expr], err = selects(ctx, expr); err != nil {
			return v, fmt.Errorf("the limits of %s cannot be checked: %w", who.Name, err)
		}
	}
	return access.Decide(rules, who, access.Dispatch, on), nil
}

// Refusal returns a decision about a request as an error: nil if it is allowed, else [ErrNotAllowed] with the reason.
func Refusal(v access.Verdict, who access.Who, verb access.Verb, on access.On) error {
	switch {
	case v.Allowed:
		return nil
	case len(v.Outside) > 0:
		return &OutsideError{verdict: v, targets: len(on.Peels)}
	}
	return fmt.Errorf("%w: %s", ErrNotAllowed, reason(v, who, verb, on))
}

// reason says why a request is not allowed on any peel.
func reason(v access.Verdict, who access.Who, verb access.Verb, on access.On) string {
	switch v.Reason {
	case access.Denied:
		if on.Path != "" {
			return fmt.Sprintf("%s denies %s of %s", v.Rule.From, verb, on.Path)
		}
		return fmt.Sprintf("%s denies %s", v.Rule.From, verb)
	case access.NoPath:
		return fmt.Sprintf("the file %s is none of %q", on.Path, v.Wanted)
	case access.NoFunction:
		return fmt.Sprintf("the function %s is none of %q", on.Function, v.Wanted)
	case access.NoArgument:
		return fmt.Sprintf("%s permits %s with the arguments %v alone", v.Rule.From, on.Function, v.Rule.Arguments)
	}
	if len(who.Roles) == 1 {
		return fmt.Sprintf("the role %s does not permit %s", who.Roles[0], verb)
	}
	return fmt.Sprintf("none of the roles %s of %s permits %s", strings.Join(who.Roles, ", "), who.Name, verb)
}

// An OutsideError is an [ErrNotAllowed]: the function is within the limits, and some targets are not.
type OutsideError struct {
	verdict access.Verdict
	targets int
}

func (e *OutsideError) Error() string {
	outside := e.verdict.Outside
	some := fmt.Sprintf("%v: %d of %d targets, the first of them %s,", ErrNotAllowed, len(outside), e.targets,
		outside[0])
	if e.verdict.Reason == access.Denied {
		return fmt.Sprintf("%s are denied by %s", some, strings.TrimSuffix(e.verdict.Rule.From, ","))
	}
	return fmt.Sprintf("%s are not selected by %s", some, quoted(e.verdict.Wanted))
}

// quoted joins texts for people.
func quoted(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return strings.Join(all, " or ")
}

// Is reports whether target is [ErrNotAllowed].
func (e *OutsideError) Is(err error) bool { return err == ErrNotAllowed }

// Has reports whether a target is outside the limits.
func (e *OutsideError) Has(id target.PeelID) bool {
	_, found := slices.BinarySearch(e.verdict.Outside, id)
	return found
}
