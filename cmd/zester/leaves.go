package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A shared is a set of flags that several commands have. A command has only those that it uses.
type shared uint16

const (
	flagURL     shared = 1 << iota // --url and --creds
	flagContext                    // --context
	flagCA                         // --ca
	flagDir                        // --data-dir
	flagOutput                     // --output
	flagHeaders                    // --no-headers
	flagColour                     // --color
	// not a flag: --output has the form wide, because a table has more columns or can be cut
	formsWide

	onBus      = flagURL | flagContext | flagCA | flagDir
	asks       = onBus | flagOutput                   // asks a master and prints data
	listsShort = asks | flagHeaders                   // the same, in a table that is always printed in full
	lists      = listsShort | formsWide               // the same, in a table that -o wide changes
	listStates = lists | flagColour                   // the same, with states
	prints     = flagOutput | flagHeaders | formsWide // prints a table without a master
)

// A leaf holds the shared flags and the examples of one command.
type leaf struct {
	flags    shared
	examples string // one a line, without the name of the program; # begins a comment
}

// leaves holds every command that is not a group, by its path.
var leaves = map[string]leaf{
	"": {listStates, `
'web-*' cmd.run command=uptime
test.ping                      # every peel: test.ping changes nothing
'G@os:debian and not db-*' cmd.run 'apt-get update' --batch 10%
web-01 settings.get key=nginx -o json`},
	"console": {onBus, "console\nconsole --print"},
	"login":   {onBus &^ flagDir, "login https://zester.example.com\nlogin --device"},
	"logout":  {onBus &^ flagDir, "logout"},

	"mcp": {onBus, "mcp\nmcp --allow dispatch --limit 5\nmcp --url tls://bus.example.com:4222 --creds assistant.creds"},
	"job list": {listStates, `
job list --asked --user ada
job list --status failed --target web-01
job list --schedule backup -o wide`},
	"job active":  {listStates, `job active`},
	"job show":    {listsShort | flagColour, "job show last\njob show 3MSR6mQU -o json"},
	"job returns": {listsShort | flagColour, "job returns last --only failed\njob returns last --group"},
	"job watch":   {listStates, `job watch last --wait 5m`},
	"job cancel":  {asks, `job cancel 3MSR6mQU`},
	"job verify":  {listsShort, "job verify last\njob verify 3MSR6mQU --export job.jsonl\njob verify --from job.jsonl"},
	"job retry":   {listStates, "job retry last\njob retry last --only missing --when-online 1h"},

	"peel list": {listStates, `
peel list
peel list -o wide              # also version, OS, address and commit
peel list --target 'G@os:debian' -o name`},
	"peel show":   {asks, `peel show web-01`},
	"peel facts":  {asks, `peel facts`},
	"peel rekey":  {asks, `peel rekey web-01`},
	"peel remove": {asks, "peel remove web-01\npeel remove web-01 --keep-credential"},

	"target eval": {lists, `
target eval 'web-* and G@os:debian'
target eval --explain 'G@os:debian and not web-*'
target eval --file peels.yaml 'N@frontend'`},

	"schedule add": {asks, `
schedule add backup --function cmd.run command=backup --cron @daily
schedule add 'queue depth' --prompt 'Is it long?' --every 5m --propose
schedule add reboot --function cmd.run reboot --at 2026-12-01T03:00:00Z`},
	"schedule edit":    {asks, "schedule edit backup --reason 'after the dump' --wait 1m\nschedule edit 42 --propose"},
	"schedule remove":  {asks, "schedule remove 42 --yes --reason 'moved to the new host'\nschedule remove backup"},
	"schedule list":    {listStates, "schedule list web-01\nschedule list '*' -o json"},
	"schedule next":    {listsShort, "schedule next web-01\nschedule next web-01 backup -n 3"},
	"schedule history": {listStates, `schedule history web-01 backup`},
	"schedule fires": {
		listStates, "schedule fires web-01 backup\nschedule fires web-01 backup --from 2026-11-20T00:00:00Z",
	},
	"schedule run": {asks, `schedule run 'web-*' backup`},
	"schedule pause": {asks, `
schedule pause 'web-*' backup --for 2h --reason 'new disk'
schedule pause '*' backup --for 2d --propose`},
	"schedule resume": {asks, `schedule resume 'web-*' backup`},
	"schedule skip":   {asks, `schedule skip web-01 backup`},
	"schedule explain": {
		flagOutput | flagHeaders, `
schedule explain '30 2 * * mon-fri' --zone Europe/London
schedule explain 'every monday at 9am' -n 3
schedule explain --file settings/db/backup.yaml --entry backup`,
	},
	"schedule spread": {
		asks, "schedule spread . --entry 'backup*'\nschedule spread . --entry '*' --facts peels.yaml --within 30m",
	},

	"now":  {listStates, "now\nnow -o json"},
	"load": {lists, "load\nload 'web-*' --entry 'backup*' --for 7d"},

	"coverage": {listStates, `
coverage
coverage 'db-*' --entry 'backup*' --since 7d
coverage --entry backup --by peel
coverage -o json`},
	"import crontab": {0, `
import crontab /etc/crontab /etc/cron.d/* > settings/cron/base.yaml
import crontab --user deploy /var/spool/cron/crontabs/deploy
import crontab --user deploy -             # standard input`},

	"import host": {onBus, "import host web-01 web-02 --out fleet\nimport host '*' --out fleet"},
	"adopt": {onBus, `
adopt web-01 /etc/motd
adopt web-01 /etc/nginx/nginx.conf pkg nginx unit nginx --repo fleet`},
	"import check": {asks | flagHeaders | formsWide, `
import check '*'
import check 'web-*' --timeout 20m
import check '*' -o json       # with all peels of each row`},
	"import salt": {0, `
import salt low.json --pillar pillar.json --roots /srv/salt --out fleet
import salt low.json --roots /srv/salt --pushed minions --out fleet`},

	"init":  {0, "init fleet\ninit fleet --forge gitlab"},
	"lint":  {flagOutput, "lint\nlint --facts peels.yaml --strict fleet"},
	"blame": {asks, `blame web-01 backup`},
	"why": {listsShort | flagColour, `
why web-01 backup
why web-01 backup 02:30
why web-01 backup 2026-11-23T02:30 -o json
why 'web-*' backup --since-when`},
	"plan": {asks | flagColour, `
plan                           # what is not committed yet
plan --base origin/main --head HEAD
plan --backtest 30d            # also against the runs of the past
plan --facts peels.yaml --base origin/main -o markdown`},

	"simulate": {asks | flagHeaders | formsWide, `
simulate --for 90d             # this directory, for the live fleet
simulate fleet --facts peels.yaml --for 30d --took 5m --took backup=2h
simulate fleet --facts peels.yaml -o svg
simulate fleet --expected --for 24h`},

	"state restore": {asks, `
state restore web-01                       # what the host keeps
state restore web-01 /etc/nginx/nginx.conf
state restore web-01 /etc/nginx --run 12`},
	"state status": {listStates, `
state status
state status 'web-*'
state status -o json           # with the states that changed or failed`},

	"sync status":  {asks, "sync status\nsync status -o json"},
	"sync now":     {asks, `sync now`},
	"sync wait":    {asks, "sync wait --timeout 2m\nsync wait --revision 9b1c8f0e --peels 3"},
	"sync peels":   {listStates, `sync peels`},
	"sync diff":    {lists, `sync diff web-01`},
	"sync history": {listStates, `sync history -o wide`},
	"sync plan":    {asks, `sync plan`},
	"sync show":    {asks, `sync show 9b1c8f0e`},
	"sync approve": {asks, "sync approve 0f3c9b77\nsync approve first-wave --reason 'looks good'"},
	"sync pause":   {asks, `sync pause`},
	"sync resume":  {asks, `sync resume`},
	"sync pin":     {asks, `sync pin 9b1c8f0e --until-newer`},
	"sync unpin":   {asks, `sync unpin --dry-run`},
	"sync retry":   {asks, `sync retry`},
	"sync adopt":   {asks, `sync adopt --dry-run`},

	"alert list":   {listStates, "alert list\nalert list --ended -o wide"},
	"alert status": {lists, `alert status`},
	"alert silence": {
		asks,
		"alert silence 'backup*' --for 2h --reason 'new disk'\n" +
			"alert silence 'peel:db-*' --for 1d --reason 'data centre moves'",
	},
	"alert unsilence": {asks, `alert unsilence 7h2k4qma`},
	"alert test":      {asks, `alert test oncall`},

	"approve": {
		listStates, "approve\napprove 37dGaoSrFIRXbpOFJdtFuWUJSsF\napprove 37dGaoSrFIRXbpOFJdtFuWUJSsF --reject",
	},

	"approvals": {lists, "approvals\napprovals -o json"},

	"auth user add": {
		asks, "auth user add ada\nauth user add lee --limit-target 'web-*' --limit-function 'test.*'",
	},
	"auth can": {
		asks, "auth can lee job.cancel\nauth can lee job.dispatch 'web-*' test.ping",
	},
	"auth who-can": {
		listsShort, "auth who-can job.cancel\nauth who-can job.dispatch 'web-*' test.ping",
	},
	"auth role set":    {asks, `auth role set web-team web-team.yaml`},
	"auth role list":   {lists, `auth role list`},
	"auth role remove": {asks, `auth role remove web-team`},
	"auth user list":   {listStates, `auth user list`},
	"auth user renew":  {asks, `auth user renew --creds ann.creds`},
	"auth user revoke": {asks, `auth user revoke lee`},
	"auth peel list": {
		listStates, "auth peel list --state pending\nauth peel list db-01\n" +
			"auth peel list -o wide         # also addresses and keys",
	},
	"auth peel approve":      {asks, `auth peel approve db-01`},
	"auth peel reject":       {asks, `auth peel reject db-01`},
	"auth peel revoke":       {asks, `auth peel revoke db-01`},
	"auth join-token create": {asks, `auth join-token create --peel 'web-*' --uses 10 --ttl 1h`},
	"auth join-token list":   {lists, `auth join-token list`},
	"auth join-token revoke": {asks, `auth join-token revoke tour`},
	"auth token create":      {asks, `auth token create ci --scope read,dispatch --limit-target 'web-*'`},
	"auth token list":        {listStates, `auth token list`},
	"auth token rotate":      {asks, `auth token rotate ci --grace 24h`},
	"auth token revoke":      {asks, `auth token revoke ci`},
	"auth site revoke":       {asks, `auth site revoke berlin`},
	"auth master list":       {listsShort, `auth master list`},
	"auth master revoke":     {asks, `auth master revoke m9`},
	"auth issue": {
		flagCA | flagDir,
		"auth issue peel web-01 --out web-01.creds\nauth issue site berlin --peels web-01,web-02 --out site.creds",
	},
	"auth export": {flagDir, "auth export --nats-conf --tls-cert bus.crt --tls-key bus.key"},
	"auth rotate": {asks, `auth rotate keys`},
	"auth retire": {asks, `auth retire keys`},

	"context add":  {flagURL | flagCA, `context add prod --url tls://bus.example:4222 --creds ada.creds --use`},
	"context use":  {0, "context use prod\ncontext use local              # the master on this host"},
	"context list": {prints, "context list\ncontext list prod -o json"},
	"context rm":   {0, `context rm prod`},

	"audit list": {
		listStates, "audit list --user ada --since 12h\naudit list --action sync --result refused --follow",
	},
	"audit verify": {asks, "audit verify\naudit verify -o json\naudit verify --from freeze.jsonl"},
	"audit evidence": {
		onBus, "audit evidence 'web-*' --since 2026-12-23T00:00:00Z",
	},
	"audit export": {onBus, "audit export\naudit export --after 4711     # what was added since"},
	"doctor":       {listsShort | flagColour, "doctor\ndoctor --cut-off\ndoctor --cut-off 'web-*' -o json"},
	"bus show":     {listsShort, `bus show`},
	"bus set":      {listsShort, "bus set --replicas 3\nbus set --audit-retention 800d"},
	"guide":        {0, "guide\nguide review\nguide entry retry"},
	"demo":         {0, "demo\ndemo --repo fleet --peel web-01 --keep"},
	"swarm":        {flagOutput | flagCA | flagDir, `swarm --peels 1000`},
	"version":      {flagOutput, "version\nversion -o json"},
}

// sharedFlag is the annotation of shared flags. Help lists them below a command's own.
const sharedFlag = "shared"

// addLeaves adds shared flags and examples to cmd and its subcommands.
func (a *app) addLeaves(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.addLeaves(c)
	}
	path := pathOf(cmd)
	l, known := leaves[path]
	if !known {
		return
	}
	a.addShared(cmd.Flags(), l.flags)
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(l.examples)) {
		b.WriteString("  zester " + strings.TrimSpace(line) + "\n")
	}
	cmd.Example = strings.TrimRight(b.String(), "\n")
}

// pathOf returns the words of a command without the name of the program, such as "job list".
func pathOf(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

// addShared adds shared flags, except those that the command defines itself.
func (a *app) addShared(own *pflag.FlagSet, which shared) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	c := &a.connect
	if which&flagURL != 0 {
		all.StringVar(&c.url, "url", os.Getenv("ZESTER_URL"), "`URL` of the bus (default: the master on this host)")
		all.StringVar(&c.creds, "creds", os.Getenv("ZESTER_CREDS"), "`FILE` with your credential")
	}
	if which&flagContext != 0 {
		all.StringVar(&c.name, "context", os.Getenv("ZESTER_CONTEXT"),
			"`NAME` of the context to use (see zester context)")
	}
	if which&flagCA != 0 {
		all.StringVar(&c.ca, "ca", os.Getenv("ZESTER_CA"), "`FILE` with the CA certificates of the bus")
	}
	if which&flagDir != 0 {
		dir := os.Getenv("ZESTER_DATA_DIR")
		if dir == "" {
			dir = dataDir(systemDataDir)
		}
		all.StringVar(&c.dataDir, "data-dir", dir, "data `DIR` of the master on this host")
	}
	if which&flagOutput != 0 {
		all.VarP(&a.output, "output", "o", "output `FORMAT`: "+strings.Join(formsOf(which), ", "))
	}
	if which&flagHeaders != 0 {
		all.BoolVar(&a.noHeaders, "no-headers", false, "do not print the headers of tables")
	}
	if which&flagColour != 0 {
		all.Var(&a.colour, "color", "`WHEN` to print states in colour: auto, always or never")
	}
	all.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{sharedFlag: nil}
		if own.Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
}

// formsOf returns the values of --output that help and completion show. wide is always accepted.
func formsOf(which shared) []string {
	if which&formsWide != 0 {
		return forms
	}
	return slices.DeleteFunc(slices.Clone(forms), func(f string) bool { return form(f) == formWide })
}

// helpWidth is the number of characters in a line of help.
const helpWidth = 80

// flagUsages returns the help of a command's shared flags, or of its own.
func flagUsages(cmd *cobra.Command, shared bool) string {
	some := pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, is := f.Annotations[sharedFlag]; is == shared {
			some.AddFlag(f)
		}
	})
	return strings.TrimRight(some.FlagUsagesWrapped(helpWidth), "\n")
}

const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if and .HasAvailableSubCommands .HasParent}}
  {{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{with ownFlags .}}

Flags:
{{.}}{{end}}{{with sharedFlags .}}

Connection and output:
{{.}}{{end}}{{if .HasAvailableSubCommands}}

{{.CommandPath}} COMMAND --help shows more about a command.{{end}}
`

func init() {
	cobra.AddTemplateFunc("ownFlags", func(cmd *cobra.Command) string { return flagUsages(cmd, false) })
	cobra.AddTemplateFunc("sharedFlags", func(cmd *cobra.Command) string { return flagUsages(cmd, true) })
}
