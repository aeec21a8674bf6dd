package main

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// completionTimeout bounds how long the shell waits for the reply of a master.
const completionTimeout = time.Second

// fixedValues holds the values of flags and arguments that are the same in every fleet, by flag or placeholder.
var fixedValues = map[string][]string{
	"color":   {"auto", "always", "never"},
	"only":    {"failed", "missing"},
	"result":  {"done", "refused", "failed"},
	"by":      {"entry", "peel"},
	"role":    {"operator", "direct", "auditor"},
	"ROLE":    {"peel", "operator", "direct", "auditor", "observer", "master", "site"},
	"scope":   {"read", "dispatch", "sync", "admin"},
	"state":   {"pending", "accepted", "rejected", "revoked"},
	"status":  strings.Split(strings.ReplaceAll(statuses, " or ", ", "), ", "),
	"keys|ca": {"keys", "ca"},
	"TOPIC":   guide.Topics(),
	"FIELD":   fieldNames(),
}

// namedValues holds the placeholders whose values a flag takes, by flag.
var namedValues = map[string]string{
	"target":       "TARGET",
	"limit-target": "TARGET",
	"commit":       "REVISION",
	"revision":     "REVISION",
	"function":     "FUNCTION",
	"context":      "CONTEXT",
}

var placeholder = regexp.MustCompile(`[A-Za-z|]+`)

// addCompletion adds completion of arguments and flags to cmd and its subcommands. Without a master nothing of the
// fleet is offered.
func (a *app) addCompletion(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.addCompletion(c)
	}
	if _, known := leaves[pathOf(cmd)]; !known {
		return
	}
	names := placeholder.FindAllString(strings.TrimPrefix(cmd.Use, cmd.Name()), -1)
	if strings.HasPrefix(pathOf(cmd), "context ") && len(names) > 0 && cmd.Name() != "add" {
		names[0] = "CONTEXT"
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string,
		word string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		name := ""
		switch {
		case !cmd.HasParent():
			name = dispatchPlaceholder(args)
		case len(args) < len(names):
			name = names[len(args)]
		}
		if name == "DIR" {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return a.values(cmd, name, args, word)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := f.Name
		switch {
		case fixedValues[name] != nil:
		case name == "output":
			name = "output of " + pathOf(cmd)
		case namedValues[name] != "":
			name = namedValues[name]
		default:
			return // a file, or free text
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, args []string,
			word string,
		) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.values(cmd, name, nil, word)
		})
	})
}

// dispatchPlaceholder returns the placeholder of the next word of a dispatch.
func dispatchPlaceholder(args []string) string {
	if len(args) == 0 {
		return "TARGET or FUNCTION"
	}
	if _, first := catalogue.Lookup(args[0]); len(args) == 1 && !first {
		return "FUNCTION"
	}
	return "PARAMETER"
}

// values returns the values of a placeholder that begin with a word.
func (a *app) values(cmd *cobra.Command, name string, args []string,
	word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	a.connect.flags = cmd.Flags()
	directive := cobra.ShellCompDirectiveNoFileComp
	all := fixedValues[name]
	switch name {
	case "output of plan":
		all = []string{"text", "markdown", "json", "yaml", "name"}
	case "output of simulate":
		all = append(formsOf(prints), string(formSVG))
	case "FUNCTION":
		all = functionNames()
	case "TARGET or FUNCTION":
		all = append(functionNames(), a.targetWords(cmd, word)...)
	case "PARAMETER":
		all, directive = parameters(args), directive|cobra.ShellCompDirectiveNoSpace
	case "CONTEXT":
		all = contextNames()
	case "PEEL":
		all = a.offered(cmd, peelIDs)
	case "TARGET", "EXPRESSION":
		if !strings.HasPrefix(cmd.CommandPath(), "zester schedule explain") {
			all = a.targetWords(cmd, word)
		}
	case "JID":
		all = append([]string{lastJob + "\tyour newest job"}, a.offered(cmd, newestJobs)...)
	case "ENTRY":
		all = a.offered(cmd, func(ctx context.Context, client *api.Client) []string {
			return entriesOf(ctx, client, args[0])
		})
	case "NAME|ID":
		all = a.offered(cmd, scheduleRefs)
	case "ACTION":
		all = a.offered(cmd, heldIDs)
	case "SILENCE":
		all = a.offered(cmd, silences)
	case "MATCH":
		all = a.offered(cmd, alertIDs)
	case "RECEIVER":
		all = a.offered(cmd, receivers)
	case "REVISION", "COMMIT", "PLAN|WAVE|COMMIT":
		all = a.offered(cmd, revisions)
	default:
		if path, found := strings.CutPrefix(name, "output of "); found {
			all = formsOf(leaves[path].flags)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		return !strings.HasPrefix(v, word) || plain(v) != v
	}), directive
}

// targetWords returns the IDs of peels, and the node groups if the word can begin one.
func (a *app) targetWords(cmd *cobra.Command, word string) []string {
	return a.offered(cmd, func(ctx context.Context, client *api.Client) []string {
		ids := peelIDs(ctx, client)
		if word != "" && !strings.HasPrefix(word, "N") {
			return ids
		}
		groups, err := client.NodeGroups(ctx)
		if err != nil {
			return ids
		}
		for _, name := range groups {
			ids = append(ids, "N@"+name)
		}
		return ids
	})
}

// offered returns the values that a master replies with, none if it cannot be asked.
func (a *app) offered(cmd *cobra.Command, ask func(context.Context, *api.Client) []string) []string {
	client, err := a.client()
	if err != nil {
		return nil
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	return ask(ctx, client)
}

func functionNames() (names []string) {
	for _, f := range catalogue.Functions() {
		names = append(names, f.Name)
	}
	return names
}

// parameters returns the parameters of the function among the words, each followed by =.
func parameters(words []string) (names []string) {
	for _, w := range words[:min(len(words), 2)] {
		f, _ := catalogue.Lookup(w)
		for _, p := range f.Params {
			names = append(names, p.Name+"=")
		}
	}
	return names
}

func contextNames() []string {
	c, err := readConfig()
	if err != nil {
		return nil
	}
	return append(slices.Sorted(maps.Keys(c.Contexts)), localContext)
}

func peelIDs(ctx context.Context, client *api.Client) (ids []string) {
	peels, err := client.Peels(ctx, "")
	if err != nil {
		return nil
	}
	for _, p := range peels {
		ids = append(ids, string(p.ID))
	}
	return ids
}

func newestJobs(ctx context.Context, client *api.Client) (jids []string) {
	page, err := api.JobList.Ask(ctx, client, job.Query{NoReads: true, Limit: 20})
	if err != nil {
		return nil
	}
	for _, j := range page.Jobs {
		jids = append(jids, string(j.JID)+"\t"+plain(j.Function+" on "+j.Target+", "+string(j.Status)))
	}
	return jids
}

// entriesOf returns the schedule entries of a peel that come from the config repo.
func entriesOf(ctx context.Context, client *api.Client, peel string) []string {
	id, err := target.ParsePeelID(peel)
	if err != nil {
		return nil
	}
	doc, err := api.SyncDiff.Ask(ctx, client, status.DocumentRequest{Peel: id})
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(doc.Origins))
}

func revisions(ctx context.Context, client *api.Client) (commits []string) {
	tried, err := attempts(ctx, client)
	if err != nil {
		return nil
	}
	for _, at := range tried {
		if c := at.Commit.Short() + "\t" + plain(at.Message); !slices.Contains(commits, c) {
			commits = append(commits, c)
		}
	}
	return commits
}
