package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// hintApprover is the hint for a credential that may not approve.
const hintApprover = "approving needs the credential of an operator without limits: zester auth user list shows them"

func (a *app) approveCommand() *cobra.Command {
	var all, reject, yes bool
	cmd := &cobra.Command{
		Use:   "approve [ACTION]",
		Short: "Decide what assistants asked for, and what needs two persons",
		Long: `approve lists the actions that wait for a person. An assistant may act on a few
peels by itself; what it asks for on more peels waits here for 24 hours, and so
does what a person asked for that needs two (zester guide access). --all
also lists what was decided or has expired in the last 7 days.

With the ID of an action it shows what the assistant says, what masters know of
it, and asks. An approved action runs as a job in your name and with your
rights, on exactly the peels that were shown; the job's record says who asked.
Nothing runs if the target no longer selects the peels that the assistant saw,
or if somebody else has decided.

What the assistant says is in quotes, on lines that begin with |. It may have
been misled by something that it read: decide by what runs, and where.

If the connection breaks before the job was started, the action is approved
without a job. The same person runs it with the same command.`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if reject || yes {
					return usageError("zester approve needs the ID of the action with --reject and --yes")
				}
				return a.withClient(func(client *api.Client) error { return a.listHeld(cmd.Context(), client, all) })
			}
			id, err := api.ParseHoldID(args[0])
			switch {
			case err != nil:
				return &failure{
					code: exitUsage,
					err:  err,
					hint: "zester approve lists the actions that wait; zester sync approve lets a revision out",
				}
			case reject && yes, all:
				return usageError("--reject, --yes and --all do not go together: one action is approved or rejected")
			}
			return a.withClient(func(client *api.Client) error {
				if reject {
					return a.rejectHeld(cmd.Context(), client, id)
				}
				err := hinted(a.approveHeld(cmd.Context(), client, id, yes), api.CodeDenied, hintApprover)
				return hinted(err, api.CodeNotFound, "zester approve --all lists the actions of the last 7 days")
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list actions that were decided or have expired")
	cmd.Flags().BoolVar(&reject, "reject", false, "reject the action")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "approve without a question")
	return cmd
}

// heldActions returns the actions that wait, newest first; with all also the others.
func heldActions(ctx context.Context, client *api.Client, all bool) ([]api.HoldAction, error) {
	actions := []api.HoldAction{}
	for q := (api.HoldQuery{All: all}); ; {
		page, err := api.HoldList.Ask(ctx, client, q)
		if err != nil {
			return nil, err
		}
		actions = append(actions, page.Actions...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return actions, nil
		}
	}
}

func (a *app) listHeld(ctx context.Context, client *api.Client, all bool) error {
	actions, err := heldActions(ctx, client, all)
	if err != nil {
		return err
	}
	if len(actions) == 0 {
		fmt.Fprintln(a.errOut, "no action waits for a person")
	}
	// it is not known without a reconciler
	if s, err := api.SyncStatus.Ask(ctx, client, api.None{}); err == nil && s.Blocked != "" {
		fmt.Fprintf(a.errOut, "revision %s waits for zester sync approve %s\n", s.LastAttempted.Short(),
			status.ShortHash(s.Blocked))
	}
	return a.show(actions, heldTable(actions))
}

func heldTable(actions []api.HoldAction) table {
	t := table{
		header: []string{
			"ACTION", "STATE", "ASKED BY", "UNTIL", "PEELS", "RUNS", "TARGET", "REASON", "AGENT", "DECIDED BY", "JOB",
		},
		narrow: []string{"TARGET", "REASON"},
		drop:   []string{"AGENT", "UNTIL", "TARGET", "STATE"},
		wide:   []string{"DECIDED BY", "JOB"},
		states: []string{"STATE"},
		legend: "TARGET, REASON and AGENT are what the assistant says. No AGENT: a person asked.",
	}
	for i := range actions {
		v := &actions[i]
		t.add(string(v.ID), heldState(v), v.By, clock(v.Expires), strconv.Itoa(v.Peels), v.Spec().Function,
			claim(v.Target), claim(v.Reason), claim(v.Agent), v.DecidedBy, string(v.JID))
	}
	return t
}

// heldState returns the state of an action for people.
func heldState(v *api.HoldAction) string {
	if v.State == api.HoldApproved && !v.Dispatched {
		return "approved, no job"
	}
	return string(v.State)
}

func (a *app) rejectHeld(ctx context.Context, client *api.Client, id api.HoldID) error {
	v, err := api.HoldReject.Ask(ctx, client, api.HoldRequest{ID: id})
	if err != nil {
		return err
	}
	return a.printDone(v, string(id), "action %s is rejected", id)
}

// approveHeld shows an action, asks, and runs its job in the name of the user.
func (a *app) approveHeld(ctx context.Context, client *api.Client, id api.HoldID, yes bool) error {
	s, err := api.HoldShow.Ask(ctx, client, api.HoldRequest{ID: id})
	if err != nil {
		return err
	}
	if err := canApprove(&s.HoldAction, client.User(), time.Now()); err != nil {
		a.describeHeld(s, nil, "")
		return err
	}
	if !s.IsJob() {
		return a.approveRequest(ctx, client, s, yes)
	}
	now, err := client.Resolve(ctx, s.Target)
	if err != nil {
		return err
	}
	if audit.PeelsHash(now.Peels) != s.Hash {
		a.describeHeld(s, nil, "")
		return otherPeels(s, now.Peels)
	}
	if !yes && !a.canAsk() {
		if a.output == formTable || a.output == formWide {
			a.describeHeld(s, now, client.User())
		} else if err := a.print(s, []string{string(id)}, nil); err != nil {
			return err
		}
		return usageError("cannot approve without --yes: there is no terminal to ask a question")
	}
	a.describeHeld(s, now, client.User())
	if !yes {
		question := fmt.Sprintf("run %s on %s as %s?", s.Spec().Function, count(len(now.Peels), "peel"), client.User())
		if err := a.ask(question, &failure{
			code: exitCanceled,
			err:  errors.New("nothing was approved"),
			hint: "zester approve " + string(id) + " --reject rejects it",
		}); err != nil {
			return err
		}
	}
	again := fmt.Sprintf(
		"zester approve %s shows whether the action was approved and its job was started, and goes on from there", id,
	)
	approved, err := api.HoldApprove.Ask(ctx, client, api.HoldRequest{ID: id})
	if err != nil {
		return hinted(err, api.CodeUnavailable, again)
	}
	s.JID = approved.JID
	spec := s.Spec() // what was shown
	spec.Targets, a.dispatching.yes = now.Peels, true
	err = a.runJob(ctx, client, spec)
	if api.CodeOf(err) != "" {
		f := failureOf(err)
		f.hint = again
		return f
	}
	return err
}

// approveRequest shows a request that needs two persons, asks, and has masters carry it out in the name of the user.
func (a *app) approveRequest(ctx context.Context, client *api.Client, s *api.HoldShown, yes bool) error {
	if !yes && !a.canAsk() {
		if a.output == formTable || a.output == formWide {
			a.describeHeld(s, nil, "")
		} else if err := a.print(s, []string{string(s.ID)}, nil); err != nil {
			return err
		}
		return usageError("cannot approve without --yes: there is no terminal to ask a question")
	}
	a.describeHeld(s, nil, client.User())
	if !yes {
		question := fmt.Sprintf("do %s for %s, as %s?", s.Verb, s.By, client.User())
		if err := a.ask(question, &failure{
			code: exitCanceled,
			err:  errors.New("nothing was approved"),
			hint: "zester approve " + string(s.ID) + " --reject rejects it",
		}); err != nil {
			return err
		}
	}
	done, err := api.HoldApprove.Ask(ctx, client, api.HoldRequest{ID: s.ID})
	if err != nil {
		return hinted(err, api.CodeUnavailable, fmt.Sprintf("zester approve %s shows whether it was begun", s.ID))
	}
	return a.printDone(done, string(s.ID), "%s is done, asked for by %s and approved by %s", s.Verb, s.By,
		client.User())
}

// canApprove returns an error if a user cannot approve an action, or run what he has approved.
func canApprove(v *api.HoldAction, user string, now time.Time) error {
	again := "have the assistant ask again"
	switch {
	case v.State == api.HoldOpen:
		return nil
	case v.State == api.HoldExpired:
		return &failure{
			code: exitFailed,
			err:  fmt.Errorf("action %s expired at %s", v.ID, when(v.Expires)),
			hint: again,
		}
	case v.State != api.HoldApproved:
		return &failure{
			code: exitFailed,
			err:  fmt.Errorf("action %s was %s by %s at %s", v.ID, v.State, v.DecidedBy, when(v.DecidedAt)),
			hint: again,
		}
	case v.Dispatched:
		hint := "zester job show " + string(v.JID) + " shows its job"
		if !v.IsJob() {
			hint = "zester audit list shows what became of it"
		}
		return &failure{
			code: exitFailed,
			err:  fmt.Errorf("action %s was approved by %s at %s", v.ID, v.DecidedBy, when(v.DecidedAt)),
			hint: hint,
		}
	case v.DecidedBy == user && now.Before(v.Expires):
		return nil
	case now.Before(v.Expires):
		again = fmt.Sprintf("%s can run it until %s with zester approve %s; or have the assistant ask again",
			v.DecidedBy, when(v.Expires), v.ID)
	}
	return &failure{
		code: exitFailed,
		err: fmt.Errorf("action %s was approved by %s at %s, and its job was not started", v.ID, v.DecidedBy,
			when(v.DecidedAt)),
		hint: again,
	}
}

// otherPeels returns the failure of an action whose target selects other peels now.
func otherPeels(s *api.HoldShown, now []target.PeelID) error {
	changes := fmt.Sprintf("%d then, %d now", s.Peels, len(now))
	if len(s.Names) == s.Peels {
		without := func(all, these []target.PeelID) []target.PeelID {
			return slices.DeleteFunc(slices.Clone(all), func(id target.PeelID) bool {
				_, is := slices.BinarySearch(these, id)
				return is
			})
		}
		var parts []string
		for _, c := range []struct {
			verb  string
			peels []target.PeelID
		}{{"joined", without(now, s.Names)}, {"left", without(s.Names, now)}} {
			if len(c.peels) > 0 {
				parts = append(parts, some(c.peels)+" "+c.verb)
			}
		}
		changes = strings.Join(parts, "; ")
	}
	return &failure{
		code: exitCanceled,
		err:  fmt.Errorf("the target selects other peels than the assistant saw: %s; nothing was approved", changes),
		hint: "zester approve " + string(s.ID) + " --reject rejects it; the assistant can ask again",
	}
}

// describeHeld prints an action for people. What comes from the assistant is first, so that it cannot move the rest off
// the screen. now and user are the peels and the person of the job; nil: there will be none.
func (a *app) describeHeld(s *api.HoldShown, now *api.TargetsPage, user string) {
	columns := cmp.Or(a.columns, width(a.errOut), helpWidth)
	who := "The assistant says"
	if s.Kind == api.HoldSecond {
		who = "This needs two persons"
	}
	fmt.Fprintf(a.errOut, "action %s\n\n%s:\n", s.ID, who)
	for _, c := range claims(&s.HoldAction) {
		printClaim(a.errOut, c, columns)
	}
	function := s.Spec().Function
	effect := "which changes hosts"
	if f, _ := catalogue.Lookup(function); f.ReadOnly {
		effect = "which only reads"
	}
	facts := table{rows: [][]string{
		{"state:", heldState(&s.HoldAction) + ", until " + when(s.Expires)},
		{"asked by:", s.By + ", " + when(s.Created)},
		{"runs:", function + ", " + effect},
	}}
	if !s.IsJob() {
		facts.rows[2] = []string{"does:", s.Verb}
	}
	if s.State != api.HoldOpen {
		facts.rows[0][1] = heldState(&s.HoldAction)
	}
	if now == nil && user != "" {
		facts.add("as:", user)
	}
	if now != nil {
		facts.add("on:", fmt.Sprintf("%s: %s", count(len(now.Peels), "peel"), some(now.Peels)))
		if n := len(now.Offline); n > 0 {
			facts.add("offline:", fmt.Sprintf("%d of them: %s", n, some(now.Offline)))
		}
		facts.add("as:", user)
	}
	fmt.Fprintf(a.errOut, "\nMasters know:\n")
	_ = facts.print(a.errOut, screen{}) // the sink keeps the error
}

// claims returns what the assistant says, each on a line of its own.
func claims(v *api.HoldAction) []string {
	lines := []string{"agent: " + claim(v.Agent), "reason: " + claim(v.Reason), "target: " + claim(v.Target)}
	if v.Kind == api.HoldPause {
		return append(lines, "pause: "+claim(v.Entry)+" for "+strictyaml.FormatDuration(v.For))
	}
	spec := v.Spec()
	if v.Kind == api.HoldSecond {
		lines = []string{"reason: " + claim(spec.Metadata[job.MetaReason])}
		if v.IsJob() {
			lines = append(lines, "target: "+claim(v.Target))
		}
	}
	if spec.StateID != "" {
		lines = append(lines, "argument: "+claim(spec.StateID))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Args)) {
		lines = append(lines, "argument "+claim(name)+": "+claim(spec.Args[name]))
	}
	if b := spec.Batch; b != nil {
		lines = append(lines, fmt.Sprintf("batch: %d", b.Size))
	}
	return lines
}

// claim returns a value from a program that nobody trusts, as JSON on one line. Characters that are not printed as
// themselves, that are written from right to left, which moves their neighbours, or that pile up on others become
// escapes.
func claim(v any) string {
	var text strings.Builder
	if err := encode(&text, v, "", ""); err != nil {
		return "?"
	}
	var b strings.Builder
	marks := 0 // in a row
	for _, r := range strings.TrimSpace(text.String()) {
		if marks++; !unicode.IsMark(r) {
			marks = 0
		}
		switch {
		case unicode.IsPrint(r) && !isRightToLeft(r) && marks < 3:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// claimed is claim for a text that may be missing.
func claimed(text string) string {
	if text == "" {
		return ""
	}
	return claim(text)
}

// isRightToLeft reports whether a character is in a block of scripts that are written from right to left.
func isRightToLeft(r rune) bool {
	return r >= 0x590 && r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff ||
		r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
}

// printClaim prints a line of claims so that each line of the terminal begins with |. A character beyond ASCII may be
// two columns wide. A line ends after an escaped newline.
func printClaim(w io.Writer, text string, columns int) {
	const margin, more = "  | ", "  |   "
	line, room := margin, columns-len(margin)
	runes := []rune(text)
	for i, r := range runes {
		size := 1
		if r >= utf8.RuneSelf {
			size = 2
		}
		newline := i > 1 && runes[i-2] == '\\' && runes[i-1] == 'n'
		if room < size || newline && r != '"' {
			fmt.Fprintln(w, line)
			line, room = more, columns-len(more)
		}
		line, room = line+string(r), room-size
	}
	fmt.Fprintln(w, line)
}

// heldIDs returns the IDs of the actions that wait, for completion.
func heldIDs(ctx context.Context, client *api.Client) (ids []string) {
	actions, err := heldActions(ctx, client, false)
	if err != nil {
		return nil
	}
	for i := range actions {
		v := &actions[i]
		ids = append(ids, fmt.Sprintf("%s\t%s on %s, asked by %s", v.ID, v.Spec().Function, count(v.Peels, "peel"),
			v.By))
	}
	return ids
}
