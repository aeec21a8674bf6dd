package grants

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// ErrNotAllowed: the caller may not do what was requested.
var ErrNotAllowed = errors.New("not allowed")

// Limits narrow what a credential may dispatch. The zero value allows everything.
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

// Allow returns [ErrNotAllowed] with the reason if a function on targets is not within the limits. Both lists are
// sorted; within has the peels that l.Target selects now; it is not used if l.Target is empty. If only some of the
// targets are outside, the error is an [OutsideError].
func (l Limits) Allow(function string, targets, within []target.PeelID) error {
	matches := func(glob string) bool { ok, _ := path.Match(glob, function); return ok }
	if len(l.Functions) > 0 && !slices.ContainsFunc(l.Functions, matches) {
		return fmt.Errorf("%w: the function %s is none of %q", ErrNotAllowed, function, l.Functions)
	}
	if l.Target == "" {
		return nil
	}
	var outside []target.PeelID
	for _, id := range targets {
		if _, ok := slices.BinarySearch(within, id); !ok {
			outside = append(outside, id)
		}
	}
	if len(outside) > 0 {
		return &OutsideError{limit: l.Target, targets: len(targets), outside: outside}
	}
	return nil
}

// A Selector returns the peels that a target expression selects now, sorted.
type Selector func(ctx context.Context, expr string) ([]target.PeelID, error)

// Evaluate is [Limits.Allow] with the peels that selects returns for l.Target. name is the name of the credential, for
// the error.
func (l Limits) Evaluate(ctx context.Context, name, function string, targets []target.PeelID, selects Selector) error {
	var within []target.PeelID
	if l.Target != "" {
		var err error
		if within, err = selects(ctx, l.Target); err != nil {
			return fmt.Errorf("the limits of %s cannot be checked: %w", name, err)
		}
	}
	return l.Allow(function, targets, within)
}

// An OutsideError is an [ErrNotAllowed]: the function is within the limits, and some targets are not.
type OutsideError struct {
	limit   string
	targets int
	outside []target.PeelID // sorted
}

func (e *OutsideError) Error() string {
	return fmt.Sprintf("%v: %d of %d targets, the first of them %s, are not selected by %q", ErrNotAllowed,
		len(e.outside), e.targets, e.outside[0], e.limit)
}

// Is reports whether target is [ErrNotAllowed].
func (e *OutsideError) Is(err error) bool { return err == ErrNotAllowed }

// Has reports whether a target is outside the limits.
func (e *OutsideError) Has(id target.PeelID) bool {
	_, found := slices.BinarySearch(e.outside, id)
	return found
}
