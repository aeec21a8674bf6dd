//go:build linux

package system

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// errNoDebconf says what is missing.
var errNoDebconf = errors.New("this host has no debconf-set-selections; debconf belongs to Debian and its relatives")

// Answers plans debconf.set. If the content of the state is secret, no change has a value, and neither has one of a
// password.
func Answers(ctx context.Context, w *host.World, a *state.DebconfSet, secret bool) (steps []host.Step, err error) {
	for _, name := range []string{"debconf-communicate", "debconf-set-selections"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, errNoDebconf
		}
	}
	answers, _ := a.Answers() // checked when the settings were read
	for _, answer := range answers {
		before, ok := w.Answer(answer.Question)
		if !ok {
			if before, ok, err = current(ctx, a.Name, answer.Question); err != nil {
				return nil, err
			}
		}
		if ok && before == answer.Value {
			continue
		}
		change := host.Change{Do: "answer", What: answer.Question}
		if !secret && answer.Type != "password" {
			change.Before, change.After = before, answer.Value
		}
		steps = append(steps, host.Step{
			Change: change,
			Apply: func(ctx context.Context) error {
				line := strings.Join([]string{a.Name, answer.Question, answer.Type, answer.Value}, " ")
				_, err := run(ctx, line+"\n", "debconf-set-selections")
				return err
			},
			Predict: func(w *host.World) { w.SetAnswer(answer.Question, answer.Value) },
		})
	}
	return steps, nil
}

// current returns the answer that a host has; ok is false if nobody has answered the question. debconf-devel(7) says
// what the replies mean.
func current(ctx context.Context, pkg, question string) (value string, ok bool, err error) {
	out, err := run(ctx, "GET "+question+"\nFGET "+question+" seen\n", "debconf-communicate", pkg)
	if err != nil {
		return "", false, err
	}
	get, seen, _ := strings.Cut(strings.TrimSuffix(out, "\n"), "\n")
	code, value, _ := strings.Cut(get, " ")
	switch code {
	case "0":
		return value, seen == "0 true", nil
	case "10":
		return "", false, nil
	}
	return "", false, fmt.Errorf("debconf gives %.200q for %s", out, question)
}
