package catalogue

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Prompt is the name of the function that asks a model.
const Prompt = "prompt.run"

// PromptModels is the fact of a peel that runs prompts: the list of its models.
const PromptModels = "prompt_models"

// MaxReadCalls is the highest number of calls in an argument of the type [Calls].
const MaxReadCalls = 16

// A ReadCall is a call of a read-only function.
type ReadCall struct {
	Function string         `yaml:"function"`
	Args     map[string]any `yaml:"args"`
}

// PromptOptions say how a model is to answer.
type PromptOptions struct {
	System         string           `yaml:"system"`
	Temperature    *float64         `yaml:"temperature"` // nil: the server's default
	MaxTokens      *int             `yaml:"max_tokens"`  // nil: the peel's default
	ResponseSchema *strictyaml.Node `yaml:"response_schema"`
}

// A PromptCall has the arguments of [Prompt].
type PromptCall struct {
	Prompt  string        `yaml:"prompt"`
	Model   string        `yaml:"model"`
	Opts    PromptOptions `yaml:"opts"`
	Context []ReadCall    `yaml:"context"`
	FailIf  string        `yaml:"fail_if"`
}

// RunBy returns the names of the functions that a call runs: its own, and those of its context. Who may not run one of
// them may not make the call.
func RunBy(function string, args map[string]any) []string {
	names := []string{function}
	calls, _ := args["context"].([]any)
	if function != Prompt {
		calls = nil
	}
	for _, c := range calls {
		call, _ := c.(map[string]any)
		name, _ := call["function"].(string)
		names = append(names, name)
	}
	return names
}

func checkRegexp(n *strictyaml.Node) strictyaml.Errors {
	var text string
	if errs, ok := strictyaml.Decode(n, &text).(strictyaml.Errors); ok {
		return errs
	}
	if _, err := regexp.Compile(text); err != nil {
		return strictyaml.Errors{{Pos: n.Pos, Msg: err.Error()}}
	}
	return nil
}

// checkCalls refuses calls of functions that could change the host, ask for secrets, or ask a model again.
func checkCalls(n *strictyaml.Node) strictyaml.Errors {
	var calls []ReadCall
	if errs, ok := strictyaml.Decode(n, &calls).(strictyaml.Errors); ok {
		return errs
	}
	if len(calls) > MaxReadCalls {
		return strictyaml.Errors{{Pos: n.Pos, Msg: fmt.Sprintf("%d calls; the most are %d", len(calls), MaxReadCalls)}}
	}
	var errs strictyaml.Errors
	for i, c := range calls {
		err := CheckCall(c.Function, "", c.Args)
		f, _ := Lookup(c.Function)
		switch {
		case err != nil:
		case !f.ReadOnly:
			err = fmt.Errorf("%s is not a function that only reads", c.Function)
		case AsksForSecrets(c.Args):
			err = fmt.Errorf("a model gets no secrets: leave out %s", SecretsTo)
		default:
			continue
		}
		errs = append(errs, strictyaml.Error{Pos: n.Pos, Path: fmt.Sprintf("[%d]", i), Msg: err.Error()})
	}
	return errs
}

func checkOptions(n *strictyaml.Node) strictyaml.Errors {
	var o PromptOptions
	if errs, ok := strictyaml.Decode(n, &o).(strictyaml.Errors); ok {
		return errs
	}
	var errs strictyaml.Errors
	if t := o.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		errs = append(errs, strictyaml.Error{
			Pos:  n.Pos,
			Path: "temperature",
			Msg:  fmt.Sprintf("must be from 0 to 2, not %v", *t),
		})
	}
	if m := o.MaxTokens; m != nil && *m < 1 {
		errs = append(errs, strictyaml.Error{
			Pos:  n.Pos,
			Path: "max_tokens",
			Msg:  fmt.Sprintf("must be 1 or more, not %d", *m),
		})
	}
	if o.ResponseSchema == nil || o.ResponseSchema.Kind == strictyaml.Null {
		return errs
	}
	_, err := ParseSchema(o.ResponseSchema)
	found, _ := err.(strictyaml.Errors)
	for _, e := range found {
		e.Path = strings.TrimSuffix("response_schema."+e.Path, ".")
		errs = append(errs, e)
	}
	return errs
}
