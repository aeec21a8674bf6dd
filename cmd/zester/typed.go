package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// spec parses the words of a dispatch, and refuses functions and arguments that the catalogue does not have. It asks no
// master: the targets are not resolved yet.
func (a *app) spec(cmd *cobra.Command, words []string) (job.Spec, error) {
	spec := job.Spec{JID: wire.NewJID(), TargetExpr: words[0]}
	if err := refuseFileNames(words); err != nil {
		return spec, err
	}
	if f, known := catalogue.Lookup(words[0]); known {
		if !f.ReadOnly {
			return spec, noTarget(words)
		}
		if err := refuseExpressionAfter(words); err != nil {
			return spec, err
		}
		spec.TargetExpr = "*"
	} else if words = words[1:]; len(words) == 0 {
		return spec, unlikeZester(spec.TargetExpr, "there is no function to run on %q%s", spec.TargetExpr,
			nearCommand(cmd, spec.TargetExpr))
	}
	if spec.Function = words[0]; !strings.Contains(spec.Function, ".") {
		return spec, unlikeZester(spec.TargetExpr, "cannot run %q on %q: a function is module.function%s",
			spec.Function, spec.TargetExpr, nearCommand(cmd, spec.TargetExpr))
	}
	if err := a.dispatching.check(cmd.Flags().Changed); err != nil {
		return spec, err
	}
	spec.Timeout = a.dispatching.timeoutOf(spec.Function)
	var err error
	if functionsOfSalt[spec.Function] != "" {
		return spec, a.checkCall(&spec)
	}
	if spec.StateID, spec.Args, err = parseArguments(spec.Function, words[1:]); err != nil {
		return spec, err
	}
	return spec, a.checkCall(&spec)
}

// verbs are first words of commands of other programs, and what zester has instead.
var verbs = map[string]string{
	"get":      "zester peel list, zester job list and zester coverage list what there is",
	"describe": "zester peel show PEEL, zester job show JOB and zester schedule history TARGET ENTRY show one thing",
	"logs":     "zester job returns JOB prints the output of a job",
	"exec":     "zester TARGET cmd.run COMMAND runs a command",
	"apply": "a commit changes the fleet, once it is on the branch; " +
		"zester TARGET state.highstate applies states now",
	"events": "zester alert list, zester sync history and zester audit list show what has happened",
}

// nearCommand suggests a command for a misspelled one. A command of another program has a hint, and no suggestion.
func nearCommand(cmd *cobra.Command, word string) string {
	if verbs[word] != "" {
		return ""
	}
	return strictyaml.Suggest(word, firstWords(cmd))
}

// unlikeZester is usageError with a hint for somebody who types a command of another program.
func unlikeZester(verb, format string, args ...any) error {
	err := usageError(format, args...)
	if f, ok := errors.AsType[*failure](err); ok {
		f.hint = verbs[verb]
	}
	return err
}

// checkCall checks a function and its arguments, with those that flags add, against the catalogue.
func (a *app) checkCall(spec *job.Spec) error {
	args := spec.Args
	if a.dispatching.test {
		args = withPair(args, "test", any(true))
	}
	err := catalogue.CheckCall(spec.Function, spec.StateID, args)
	if err == nil {
		return nil
	}
	refused := &failure{code: exitUsage, err: err}
	f, known := catalogue.Lookup(spec.Function)
	if !known {
		if here := functionsOfSalt[spec.Function]; here != "" {
			refused.hint = "what " + spec.Function + " is in Salt is here " + here
			return refused
		}
		refused.hint = "zester '*' sys.list_functions prints what peels can run; a newer function needs a newer zester"
		return refused
	}
	refused.hint = fmt.Sprintf("zester '*' sys.doc %s prints its arguments", spec.Function)
	for _, p := range f.Params {
		switch value := args[p.Name].(type) {
		case int64, float64, bool:
			if p.Type == catalogue.String {
				refused.hint = fmt.Sprintf(`%s='"%v"' is the text %[2]v`, p.Name, value)
			}
		}
	}
	return refused
}

// noTarget returns the error for a function that changes hosts and has no target.
func noTarget(words []string) error {
	f := &failure{
		code: exitUsage,
		err:  fmt.Errorf("no target for %s: it changes hosts, so it needs a target", words[0]),
	}
	swapped := slices.Clone(words)
	if len(words) > 2 && couldBeTarget(words[1]) {
		swapped[0], swapped[1] = words[1], words[0]
		f.hint = fmt.Sprintf("did you mean %s? Every peel is '*'", commandLine(swapped))
	} else {
		f.hint = fmt.Sprintf("%s runs it on every peel", commandLine(slices.Insert(swapped, 0, "*")))
	}
	return f
}

// refusePeelAfter refuses a function without a target before the ID of a peel: zester test.echo web-01 would print
// web-01 on every peel.
func (a *app) refusePeelAfter(ctx context.Context, client *api.Client, words []string) error {
	if !functionFirst(words) {
		return nil
	}
	if _, err := target.ParsePeelID(words[1]); err != nil {
		return nil
	}
	resolved, err := client.Resolve(ctx, "L@"+words[1])
	switch {
	case a.dispatching.direct && api.CodeOf(err) == api.CodeUnavailable:
		return nil // there is no master to ask
	case err != nil:
		return err
	case len(resolved.Peels) == 0:
		return nil
	}
	return targetAfter(words, "the ID of a peel")
}

// functionFirst reports whether the words begin with a function and a word that is not name=value.
func functionFirst(words []string) bool {
	_, first := catalogue.Lookup(words[0])
	return first && len(words) > 1 && !argument.MatchString(words[1])
}

// refuseExpressionAfter refuses a function without a target before a target expression, or before a word that the
// function does not take. It asks no master.
func refuseExpressionAfter(words []string) error {
	if !functionFirst(words) {
		return nil
	}
	f, _ := catalogue.Lookup(words[0])
	takesWord := slices.ContainsFunc(f.Params, func(p catalogue.Param) bool { return p.Positional })
	switch {
	case isExpression(words[1]):
		return targetAfter(words, "a target")
	case !takesWord && couldBeTarget(words[1]):
		return targetAfter(words, "not an argument of it")
	}
	return nil
}

func targetAfter(words []string, what string) error {
	swapped := slices.Clone(words)
	swapped[0], swapped[1] = words[1], words[0]
	f := &failure{code: exitUsage, err: fmt.Errorf("%q after %s is %s: nothing was run", words[1], words[0], what)}
	f.hint = fmt.Sprintf("did you mean %s? For every peel write %s", commandLine(swapped),
		commandLine(slices.Insert(slices.Clone(words), 0, "*")))
	return f
}

// targetForm matches the beginning of a term such as G@os:debian.
var targetForm = regexp.MustCompile(`^[A-Z][^\s]?@`)

// isExpression reports whether a word is a target expression and neither an ID nor plain text.
func isExpression(word string) bool {
	if !strings.ContainsAny(word, "*?[( ") && !targetForm.MatchString(word) {
		return false
	}
	_, err := target.Parse(word, target.Options{})
	return err == nil
}

func couldBeTarget(word string) bool {
	_, err := target.ParsePeelID(word)
	return err == nil || isExpression(word)
}

// refuseFileNames refuses file names before a function, with which a shell has replaced a pattern without quotes.
func refuseFileNames(words []string) error {
	function := slices.IndexFunc(words, func(w string) bool { _, known := catalogue.Lookup(w); return known })
	if function < 2 || slices.ContainsFunc(words[:function], func(w string) bool { return !isFile(w) }) {
		return nil
	}
	return &failure{
		code: exitUsage,
		err: fmt.Errorf("%q, %q and other words before %s are files of this directory: "+
			"the shell has replaced a pattern by them",
			words[0], words[1], words[function]),
		hint: fmt.Sprintf("quote the target: %s", commandLine(append([]string{"*"}, words[function:]...))),
	}
}

func isFile(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// commandLine returns the shell command for a dispatch.
func commandLine(words []string) string {
	typed := []string{"zester"}
	for _, w := range words {
		typed = append(typed, shell.Word(w))
	}
	return strings.Join(typed, " ")
}
