package main

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func (a *app) alertCommand() *cobra.Command {
	return group("alert", "Show and silence alerts about schedules, peels and revisions",
		a.alertListCommand(), a.alertStatusCommand(), a.alertSilenceCommand(), a.alertUnsilenceCommand(),
		a.alertTestCommand())
}

// noAlertLeader is the hint of a request that no master answers.
const noAlertLeader = "the master that leads the alerts answers; another one takes the lead within 20 s"

func (a *app) alertListCommand() *cobra.Command {
	var q api.AlertsRequest
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List alerts and silences",
		Long: `list shows the alerts, which zester.yaml defines under alerts. An alert is a
rule and an entry, RULE/ENTRY, or a rule and a trouble of whole peels or of
revisions, RULE:TROUBLE. It is waiting until its trouble has lasted for the time
under for:, and then firing until the trouble has been gone for 5 minutes, or
longer if it came and went before.

Below the alerts are the silences, with their IDs.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			answer, err := api.AlertList.Ask(cmd.Context(), client, q)
			if err != nil {
				return hinted(err, api.CodeUnavailable, noAlertLeader)
			}
			return a.showAlerts(answer)
		}),
	}
	cmd.Flags().BoolVar(&q.Ended, "ended", false, "also alerts that ended within a day")
	return cmd
}

func (a *app) showAlerts(answer *api.AlertsAnswer) error {
	names := make([]string, len(answer.Alerts))
	for i, v := range answer.Alerts {
		names[i] = v.ID
	}
	return a.print(answer, names, func() error {
		if err := a.printTable(alertsTable(answer.Alerts)); err != nil {
			return err
		}
		if len(answer.Alerts) == 0 {
			fmt.Fprintln(a.errOut, "no alerts")
		}
		if len(answer.Silences) > 0 {
			if len(answer.Alerts) > 0 {
				fmt.Fprintln(a.out)
			}
			if err := a.printTable(silencesTable(answer.Silences)); err != nil {
				return err
			}
		}
		if answer.Stale != "" {
			fmt.Fprintf(a.errOut, "alerts about schedules may be old: %s\n", plain(answer.Stale))
		}
		if answer.Dropped > 0 {
			fmt.Fprintf(
				a.errOut,
				"%d troubles of peels share alerts named too_many_alerts, as there are too many for one alert each\n",
				answer.Dropped,
			)
		}
		return nil
	})
}

func alertsTable(alerts []api.Alert) table {
	t := table{
		header: []string{
			"ALERT", "STATE", "TROUBLE", "PEELS", "SINCE", "SILENCE", "NAMES", "TEXT", "ENDED", "NOT SENT TO",
		},
		states: []string{"STATE"},
		narrow: []string{"TEXT", "NAMES"},
		drop:   []string{"NAMES", "SILENCE", "SINCE"},
		wide:   []string{"ENDED", "NOT SENT TO"},
	}
	for _, v := range alerts {
		troubles := make([]string, len(v.Troubles))
		for i, k := range v.Troubles {
			troubles[i] = string(k)
		}
		peels, names := "", make([]string, len(v.Names))
		if v.Peels > 0 {
			peels = strconv.Itoa(v.Peels)
		}
		for i, n := range v.Names {
			names[i] = string(n)
		}
		t.add(v.ID, v.State, strings.Join(troubles, ","), peels, clock(v.Since), v.Silence, strings.Join(names, ","),
			v.Text, clock(v.Ended), strings.Join(v.Waits, ","))
	}
	return t
}

func silencesTable(silences []api.Silence) table {
	t := table{
		header: []string{"SILENCE", "MATCH", "UNTIL", "BY", "REASON"},
		narrow: []string{"REASON"},
		drop:   []string{"BY"},
	}
	for _, s := range silences {
		t.add(s.ID, s.Match, clock(s.Until), s.By, s.Reason)
	}
	return t
}

func (a *app) alertStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which receivers get alerts, and which cannot be reached",
		Long: `status shows the master that leads the alerts, the rules, and the receivers in
its master.yaml. WAITING is the number of alerts whose newest state a receiver
has not got yet, and of healthchecks the number of pings. A receiver that cannot
be reached is tried again after pauses of up to 5 minutes.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			s, err := api.AlertReceivers.Ask(cmd.Context(), client, api.None{})
			if err != nil {
				return hinted(err, api.CodeUnavailable, noAlertLeader)
			}
			names := make([]string, len(s.Receivers))
			for i, r := range s.Receivers {
				names[i] = r.Name
			}
			return a.print(s, names, func() error { return a.alertStatusText(s) })
		}),
	}
}

func (a *app) alertStatusText(s *api.AlertStatus) error {
	rules := fmt.Sprintf("%d in zester.yaml", s.Rules)
	if s.Default {
		rules = "the default ones: zester.yaml has none"
	}
	facts := table{
		rows: [][]string{
			{"leads:", s.Owner + " since " + when(s.Since)}, {"rules:", rules}, {"firing:", strconv.Itoa(s.Firing)},
		},
	}
	for _, trouble := range []struct{ name, text string }{
		{"schedules:", s.Stale}, {"revisions:", s.Revision}, {"not stored:", s.Storage},
	} {
		if trouble.text != "" {
			facts.add(trouble.name, plain(trouble.text))
		}
	}
	if v := s.Alive; v != nil {
		text := "called " + when(v.Called)
		switch {
		case v.Held != "":
			text = "not called: " + v.Held
		case v.Error != "":
			text = "cannot be called: " + v.Error
		}
		facts.add("alive:", plain(text))
	}
	if err := facts.print(a.out, screen{width: a.screen().width}); err != nil {
		return err
	}
	t := table{
		header: []string{"RECEIVER", "PROVIDER", "WAITING", "SENT", "LAST SENT", "NEXT TRY", "ERROR", "REFUSED"},
		narrow: []string{"ERROR"},
		drop:   []string{"NEXT TRY", "LAST SENT"},
		wide:   []string{"REFUSED"},
	}
	for _, r := range s.Receivers {
		problem := r.Error
		if len(r.Unknown) > 0 {
			problem = "named by the rules " + strings.Join(r.Unknown, ", ") + ": " + problem
		}
		t.add(r.Name, r.Provider, strconv.Itoa(r.Waiting), strconv.FormatUint(r.Sent, 10), clock(r.Success),
			clock(r.Again), problem, strconv.FormatUint(r.Refused, 10))
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(a.errOut, "no receivers: list chats, mailboxes or pagers under alerts.receivers in master.yaml, "+
			"and restart the masters")
		return nil
	}
	fmt.Fprintln(a.out)
	return a.printTable(t)
}

func (a *app) alertSilenceCommand() *cobra.Command {
	var q api.SilenceRequest
	cmd := &cobra.Command{
		Use:   "silence MATCH",
		Short: "Keep alerts from being sent for a time",
		Long: `silence keeps alerts from being sent until --for is over, at most 30 days. MATCH
is a glob for the ID of an alert, its rule or its entry; peel:GLOB is for the
troubles of peels. An alert that lasts when its silence ends is sent then. That
an alert has ended is sent also during a silence, to receivers that know of it.

The person and the reason are in the audit log.`,
		Args: words("glob that alerts have to match"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Match = args[0]
			switch {
			case q.For <= 0:
				return usageError("cannot silence %q without an end: give --for, such as --for 2h", q.Match)
			case q.Reason == "":
				return usageError("cannot silence %q without a reason: give --reason", q.Match)
			}
			return a.withClient(func(client *api.Client) error {
				s, err := api.AlertSilence.Ask(cmd.Context(), client, q)
				if err != nil {
					return hinted(err, api.CodeUnavailable, noAlertLeader)
				}
				a.warnMatchesNothing(cmd.Context(), client, q.Match)
				return a.print(s, []string{s.ID}, func() error {
					_, err := fmt.Fprintf(a.out, "silence %s of %s until %s\n", s.ID, plain(s.Match), when(s.Until))
					return err
				})
			})
		},
	}
	durationVar(cmd.Flags(), &q.For, "for", 0, "`TIME` until the silence ends, such as 2h")
	cmd.Flags().StringVar(&q.Reason, "reason", "", "`REASON` to record, one line")
	return cmd
}

// warnMatchesNothing says it if a silence matches no alert and no entry that masters know now. It may be for a later
// one.
func (a *app) warnMatchesNothing(ctx context.Context, client *api.Client, match string) {
	if strings.HasPrefix(match, "peel:") {
		return
	}
	names := map[string]bool{}
	alerts, err := api.AlertList.Ask(ctx, client, api.AlertsRequest{})
	if err != nil {
		return
	}
	for _, v := range alerts.Alerts {
		rule, entry, _ := strings.Cut(v.ID, "/")
		names[v.ID], names[rule], names[entry] = true, true, true
	}
	c, err := client.Coverage(ctx, api.CoverageRequest{Since: time.Now().Add(-time.Hour)})
	if err != nil {
		return
	}
	for _, r := range c.Rows {
		names[r.Entry] = true
	}
	for name := range names {
		if fits, _ := path.Match(match, name); fits {
			return
		}
	}
	fmt.Fprintf(a.errOut, "no alert and no entry that is known now matches %s%s\n", plain(match),
		strictyaml.Suggest(match, slices.Sorted(maps.Keys(names))))
}

func (a *app) alertUnsilenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unsilence SILENCE",
		Short: "End a silence",
		Args:  words("ID of the silence"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			s, err := api.AlertUnsilence.Ask(cmd.Context(), client, api.SilenceID{ID: args[0]})
			if err != nil {
				return hinted(err, api.CodeUnavailable, noAlertLeader)
			}
			return a.print(s, []string{s.ID}, func() error {
				_, err := fmt.Fprintf(a.out, "silence %s of %s has ended\n", s.ID, plain(s.Match))
				return err
			})
		}),
	}
}

func (a *app) alertTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test RECEIVER",
		Short: "Send a test message to a receiver",
		Long: `test sends a message to a receiver in master.yaml of the master that leads the
alerts, and says whether the receiver has taken it. The message says that it is
a test.`,
		Args: words("receiver"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			r, err := api.AlertTest.Ask(cmd.Context(), client, api.ReceiverName{Name: args[0]})
			if err != nil {
				const hint = "zester alert status shows the receivers; their addresses and secrets are in master.yaml"
				return hinted(hinted(err, api.CodeUnavailable, hint), api.CodeNotFound, hint)
			}
			return a.print(r, []string{r.Name}, func() error {
				_, err := fmt.Fprintf(a.out, "%s has taken the test message\n", r.Name)
				return err
			})
		}),
	}
}

// silences returns the IDs of the silences, for completion.
func silences(ctx context.Context, client *api.Client) (ids []string) {
	answer, err := api.AlertList.Ask(ctx, client, api.AlertsRequest{})
	if err != nil {
		return nil
	}
	for _, s := range answer.Silences {
		ids = append(ids, s.ID+"\t"+plain(s.Match+" until "+s.Until.Local().Format(time.DateTime)))
	}
	return ids
}

// alertIDs returns the IDs of the alerts, for completion.
func alertIDs(ctx context.Context, client *api.Client) (ids []string) {
	answer, err := api.AlertList.Ask(ctx, client, api.AlertsRequest{})
	if err != nil {
		return nil
	}
	for _, v := range answer.Alerts {
		ids = append(ids, v.ID)
	}
	return ids
}

// receivers returns the names of the receivers, for completion.
func receivers(ctx context.Context, client *api.Client) (names []string) {
	s, err := api.AlertReceivers.Ask(ctx, client, api.None{})
	if err != nil {
		return nil
	}
	for _, r := range s.Receivers {
		if len(r.Unknown) == 0 {
			names = append(names, r.Name+"\t"+plain(r.Provider))
		}
	}
	return names
}
