package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/cmd/zester/movein"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const adoptManual = `adopt writes states that a live host already fulfils into a config repo: of
files, directories and symbolic links by their path, of packages after the word
pkg, and of units of systemd after the word unit. Of a unit that a timer or a
socket starts, adopt writes the state of that.

  zester adopt web-01 /etc/nginx/nginx.conf pkg nginx unit nginx

The states go to settings/adopted/PEEL.yaml, the contents of files below
files/adopted/PEEL. Each state is tried on the host with test=true first. If one
would change something, nothing is written. The contents are not part of this
trial: zester import check PEEL compares them once the commit is in force.

Files of up to 256 KiB are read by the function file.read, sealed to this
command, which takes the permission to see secrets (zester auth user add
--secrets). A file that looks as if it had a secret, such as a private key, is
adopted with --secret alone, and its content is written beside the repo, with
the command of sops that takes it in.`

// adopting are the flags of adopt.
type adopting struct {
	repo     string
	isSecret bool
}

// A thing is what adopt makes a state of.
type thing struct{ kind, name string } // kind is file, pkg or unit

func (a *app) adoptCommand() *cobra.Command {
	var f adopting
	cmd := &cobra.Command{
		Use:   "adopt PEEL PATH|pkg NAME|unit NAME…",
		Short: "Write states that a host already fulfils",
		Long:  adoptManual,
		Args: func(_ *cobra.Command, args []string) error {
			_, err := thingsOf(args)
			return err
		},
		RunE: a.onPeel(func(cmd *cobra.Command, client *api.Client, id target.PeelID, args []string) error {
			things, err := thingsOf(append([]string{string(id)}, args...))
			if err != nil {
				return err
			}
			return a.adopt(cmd.Context(), client, id, things, f)
		}),
	}
	cmd.Flags().StringVar(&f.repo, "repo", ".", "`DIR` of the config repo")
	cmd.Flags().BoolVar(&f.isSecret, "secret", false, "adopt files that look as if they had a secret, too")
	return cmd
}

// thingsOf reads the words after the peel.
func thingsOf(args []string) (things []thing, err error) {
	if len(args) < 2 {
		return nil, usageError("what of which host? Write zester adopt web-01 /etc/motd pkg nginx unit nginx")
	}
	for i := 1; i < len(args); i++ {
		switch word := args[i]; {
		case strings.HasPrefix(word, "/") && filepath.Clean(word) == word:
			things = append(things, thing{"file", word})
		case word != "pkg" && word != "unit":
			return nil, usageError("cannot adopt %q: write an absolute path, pkg NAME or unit NAME", word)
		case i+1 == len(args):
			return nil, usageError("%s needs a name after it", word)
		default:
			i++
			things = append(things, thing{word, args[i]})
		}
	}
	return things, nil
}

// An adoption is the states that a host fulfils, before they are written.
type adoption struct {
	peel    target.PeelID
	states  []movein.Adopted
	secrets map[string][]byte // contents that do not belong in the repo, by their path in it
	files   map[string][]byte
}

func (a *app) adopt(ctx context.Context, client *api.Client, id target.PeelID, things []thing, f adopting) error {
	to := filepath.Join("settings", filepath.FromSlash(strings.ReplaceAll(movein.AdoptedRef(string(id)), ".", "/"))) +
		".yaml"
	old, err := readRepo(f.repo, to)
	if err != nil {
		return err
	}
	found := adoption{peel: id, secrets: map[string][]byte{}, files: map[string][]byte{}}
	for _, t := range things {
		one, err := a.adoptOne(ctx, client, id, t, f.isSecret)
		if err != nil {
			return err
		}
		isNamed := func(s movein.Adopted) bool { return s.ID == one.ID }
		if !slices.ContainsFunc(found.states, isNamed) { // two units may have one timer
			found.add(one)
		}
	}
	if found.files[filepath.ToSlash(to)], err = movein.Settings(old, found.states); err != nil {
		return fmt.Errorf("cannot write %s: %w", to, err)
	}
	for i := range found.states {
		if err := a.prove(ctx, client, id, &found.states[i]); err != nil {
			return err
		}
	}
	beside := absolute(f.repo) + ".secrets"
	if err := writeTree(beside, found.secrets, 0o700, 0o600); err != nil {
		return err
	}
	if err := writeTree(f.repo, found.files, 0o755, 0o644); err != nil {
		return err
	}
	fmt.Fprint(a.out, found.report(f.repo, beside))
	return nil
}

// readRepo reads a settings file of a config repo. It returns nil if the repo does not have the file.
func readRepo(repo, name string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(repo, "top.yaml")); err != nil {
		return nil, &failure{
			code: exitFailed, err: fmt.Errorf("cannot adopt into %s: it has no top.yaml", repo),
			hint: "give the directory of a config repo as --repo; zester init makes a new one",
		}
	}
	text, err := os.ReadFile(filepath.Join(repo, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// adoptOne asks the peel what it has, and returns the state of it.
func (a *app) adoptOne(ctx context.Context, client *api.Client, id target.PeelID, t thing, isSecret bool) (
	s movein.Adopted, err error,
) {
	host := string(id)
	switch t.kind {
	case "pkg":
		var version string
		args := map[string]any{"names": []any{t.name}}
		if err := a.askPeel(ctx, client, id, job.Spec{Function: "pkg.version", Args: args}, &version); err != nil {
			return s, err
		}
		return movein.AdoptPackage(host, t.name, version)
	case "unit":
		return a.adoptUnit(ctx, client, id, state.UnitName(t.name))
	}
	var live movein.LiveFile
	args := map[string]any{"path": t.name, "secret": isSecret}
	if err := a.askPeel(ctx, client, id, job.Spec{Function: "file.read", Args: args}, &live); err != nil {
		return s, err
	}
	live.Path = t.name
	return movein.AdoptFile(host, live)
}

// adoptUnit asks the peel about a unit, and returns the state of it or of the unit that starts it.
func (a *app) adoptUnit(ctx context.Context, client *api.Client, id target.PeelID, name string) (
	s movein.Adopted, err error,
) {
	ask := func(name string) (u movein.LiveUnit, err error) {
		spec := job.Spec{Function: "service.status", Args: map[string]any{"name": name}}
		err = a.askPeel(ctx, client, id, spec, &u)
		u.Name = name
		return u, err
	}
	unit, err := ask(name)
	if err != nil {
		return s, err
	}
	starter := unit.Starter()
	if starter == "" {
		return movein.AdoptUnit(string(id), unit)
	}
	if unit, err = ask(starter); err != nil {
		return s, err
	}
	s, err = movein.AdoptUnit(string(id), unit)
	s.Note = "it starts " + name + ", which has no state of its own"
	return s, err
}

// askPeel runs a function on one peel and decodes its data.
func (a *app) askPeel(ctx context.Context, client *api.Client, id target.PeelID, spec job.Spec, into any) error {
	r, err := a.runOn(ctx, client, id, spec)
	if err != nil {
		return err
	}
	data, err := canon.Marshal(r.Data)
	if err == nil {
		err = canon.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("cannot read what %s says to %s: %w", id, spec.Function, err)
	}
	return nil
}

// runOn runs a function on one peel and returns its return, opened if it is sealed. A failed run is an error.
func (a *app) runOn(ctx context.Context, client *api.Client, id target.PeelID, spec job.Spec) (*wire.Return, error) {
	spec.JID, spec.TargetExpr, spec.Targets = wire.NewJID(), string(id), []target.PeelID{id}
	var secrets secretive
	if secretKeys[spec.Function] != "" {
		secrets.show = true
		if err := secrets.ask(&spec); err != nil {
			return nil, err
		}
	}
	var got *wire.Return
	err := a.gather(ctx, client, spec, func(_ target.PeelID, r *wire.Return) { got = secrets.open(r) })
	switch {
	case err != nil:
		return nil, err
	case got == nil:
		return nil, &failure{code: exitSomeSilent, err: fmt.Errorf("no answer from %s to %s", id, spec.Function)}
	case !got.Success:
		return nil, &failure{
			code: exitSomeFailed, err: fmt.Errorf("%s cannot run %s: %s", id, spec.Function, plain(got.Error)),
		}
	}
	return got, nil
}

// prove returns an error unless the host fulfils a state.
func (a *app) prove(ctx context.Context, client *api.Client, id target.PeelID, s *movein.Adopted) error {
	r, err := a.runOn(ctx, client, id, job.Spec{Function: s.Function, StateID: s.ID, Args: s.Test()})
	if err != nil {
		return err
	}
	run, err := runOf(&r.Result)
	if err != nil {
		return err
	}
	return run.fulfilled(id, s.ID)
}

// fulfilled returns an error unless a run with test=true found that a host fulfils a state.
func (r *stateRun) fulfilled(id target.PeelID, name string) error {
	for _, d := range r.differences() {
		result := cmp.Or(stateResults[d.Result].text, d.Result)
		return &failure{
			code: exitSomeFailed,
			err:  fmt.Errorf("nothing is written, because %s of %s %s: %s", name, id, result, plain(d.What)),
		}
	}
	return nil
}

// add takes a state, with the content of its file.
func (f *adoption) add(s movein.Adopted) {
	f.states = append(f.states, s)
	switch {
	case s.Source == "":
	case s.Secret != "":
		f.secrets[s.Source] = s.Content
	default:
		f.files[s.Source] = s.Content
	}
}

func (f *adoption) report(repo, beside string) string {
	var b strings.Builder
	ref := movein.AdoptedRef(string(f.peel))
	fmt.Fprintf(&b, "%s in settings/%s.yaml, 0 would change on %s\n", count(len(f.states), "state"),
		strings.ReplaceAll(ref, ".", "/"), f.peel)
	for _, s := range f.states {
		if s.Note != "" {
			fmt.Fprintf(&b, "note: %s: %s\n", s.ID, plain(s.Note))
		}
		if _, isSecret := f.secrets[s.Source]; isSecret {
			fmt.Fprintf(&b, "secret: (cd %s && mkdir -p %s && sops encrypt --filename-override %s %s > %s)\n",
				shell.Word(repo), shell.Word(filepath.Dir(s.Source)), shell.Word(s.Source),
				shell.Word(filepath.Join(beside, s.Source)), shell.Word(s.Source))
		}
	}
	fmt.Fprintf(&b, "next: give %s the file in top.yaml, commit, then zester import check %s\n  %s: [%s]\n", f.peel,
		f.peel, f.peel, ref)
	return b.String()
}
