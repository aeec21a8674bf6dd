// Package salt has the words of Salt with the words here, for hints of errors and for a page of the guide. Call [Hint]
// where a word is not known.
//
// Known gap: it has the words that most states and commands of Salt need, and no others.
package salt

import (
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A Kind says where a word stands.
type Kind string

// The kinds of words.
const (
	Function Kind = "function of states"
	Argument Kind = "argument or requisite"
	Command  Kind = "function on the command line"
	Option   Kind = "argument on the command line"
	Top      Kind = "key of a file"
	Concept  Kind = "concept"
)

// A Word is a word of Salt and what to write here.
type Word struct {
	Kind Kind
	Salt string
	Here string // in the words of a person: "names: [a, b]"
}

// Words returns all words by their kinds.
func Words() []Word { return slices.Clone(words) }

var words = []Word{
	{Function, "file.append", "file.line"},
	{Function, "file.prepend", "file.line"},
	{Function, "file.keyvalue", "file.line with match"},
	{Function, "file.comment", "file.line with match"},
	{Function, "file.uncomment", "file.line with match"},
	{Function, "file.blockreplace", "file.block with begin and end"},
	{Function, "file.accumulated", "file.block for each part"},
	{Function, "file.exists", "cmd.run: test -e PATH"},
	{Function, "file.touch", "file.managed with content: '' and replace: false"},
	{Function, "file.copy", "file.managed with the source in files/"},
	{Function, "file.serialize", "file.managed with template: true and the filter json"},
	{Function, "pkg.purged", "pkg.removed with purge: true"},
	{Function, "pkg.uptodate", "a schedule entry that runs cmd.run: apt-get -y upgrade"},
	{Function, "pkgrepo.absent", "file.absent of the file of the repository"},
	{Function, "service.masked", "service.dead with mask: true"},
	{Function, "cmd.wait", "cmd.run with onchanges"},
	{Function, "cmd.watch", "cmd.run with onchanges"},
	{Function, "cmd.script", "file.managed for the script and cmd.run"},
	{Function, "cmd.wait_script", "file.managed for the script and cmd.run with onchanges"},
	{Function, "module.run", "cmd.run"},
	{Function, "module.wait", "cmd.run with onchanges"},
	{Function, "schedule.present", "an entry below schedule:"},
	{Function, "test.nop", "no state: requisites can name any state"},

	{Argument, "name", "the argument that names the thing: path, command or name; its default is the state's name"},
	{Argument, "pkgs", "names"},
	{Argument, "sources", "a repository (pkgrepo.managed) with the packages"},
	{Argument, "contents", "content"},
	{Argument, "contents_pillar", "content with template: true and {{settings.KEY}}"},
	{Argument, "text", "line"},
	{Argument, "runas", "user"},
	{Argument, "stateful", "changed_if, with exit codes or output"},
	{Argument, "umask", "mode of the file that the command makes"},
	{Argument, "context", "vars"},
	{Argument, "defaults", "vars"},
	{Argument, "source_hash", "sha256, of a source from https"},
	{Argument, "show_changes", "diff: false"},
	{Argument, "file_mode", "mode, or file_mode of file.directory with recurse: [mode]"},
	{Argument, "dir_mode", "mode, or dir_mode of file.recurse"},
	{Argument, "follow_symlinks", "follow: true, for links that other users made"},
	{Argument, "backup", "nothing: zester state restore has what a state replaced"},
	{Argument, "optional_groups", "groups with groups that exist"},
	{Argument, "remove_groups", "groups"},
	{Argument, "addusers", "members"},
	{Argument, "delusers", "groups of user.present"},
	{Argument, "special", "the entry's time, such as cron: '@daily' below schedule:"},
	{Argument, "listen", "watch: a service restarts once, at its place"},
	{Argument, "listen_in", "watch_in"},
	{Argument, "prereq", "onlyif, or watch of the service"},
	{Argument, "use", "the arguments, written again"},
	{Argument, "order", "nothing: states run in the order of the files; require changes it"},
	{Argument, "failhard", "failhard beside the arguments of the state"},
	{Argument, "watch_any", "watch: any change is enough"},
	{Argument, "require_any", "require"},
	{Argument, "fire_event", "nothing: zester state status has what changed"},
	{Argument, "check_cmd", "check of file.managed, or a cmd.run that requires it"},

	{Command, "state.sls", "state.apply"},
	{Command, "state.highstate_test", "state.highstate test=true"},
	{Command, "state.show_highstate", "state.show"},
	{Command, "state.show_lowstate", "state.show"},
	{Command, "state.show_sls", "state.show"},
	{Command, "state.show_top", "zester plan"},
	{Command, "state.single", "the function itself: zester TARGET file.managed path=…"},
	{Command, "grains.items", "facts.items"},
	{Command, "grains.get", "facts.get"},
	{Command, "grains.item", "facts.get"},
	{Command, "pillar.items", "settings.items"},
	{Command, "pillar.get", "settings.get"},
	{Command, "pillar.item", "settings.get"},
	{Command, "pkg.install", "pkg.installed"},
	{Command, "pkg.remove", "pkg.removed"},
	{Command, "cmd.shell", "cmd.run"},
	{Command, "saltutil.refresh_pillar", "nothing: peels get settings at once; zester sync wait"},
	{Command, "saltutil.sync_all", "nothing: peels get settings at once; zester sync wait"},
	{Command, "saltutil.running", "zester job active"},
	{Command, "saltutil.kill_job", "zester job cancel"},

	{Option, "pillar", "settings in the repo: a run has no values of its own"},
	{Option, "saltenv", "environments of top.yaml"},
	{Option, "queue", "nothing: runs of states wait for each other"},

	{Top, "include", "top.yaml gives each host its files; remove it"},
	{Top, "extend", "a later file of the same host sets the fields of a state; write them below states:"},

	{Concept, "minion", "peel"},
	{Concept, "pillar", "settings"},
	{Concept, "grain", "fact"},
	{Concept, "sls", "a settings file with states:"},
	{Concept, "salt://PATH", "files/PATH of the config repo"},
	{Concept, "highstate", "state.highstate: all states of the settings"},
	{Concept, "Jinja", "templates with {{settings.x}}, {{#if}} and no code"},
	{Concept, "mine, publish.publish", "none"},
	{Concept, "-l debug", "zester why, zester job show"},
}

// Hint returns "; Salt's WORD is HERE here", or an empty text if the word is none of the kind.
func Hint(kind Kind, word string) string {
	i := slices.IndexFunc(words, func(w Word) bool { return w.Kind == kind && w.Salt == word })
	if i < 0 {
		return ""
	}
	return "; what " + word + " is in Salt is here " + words[i].Here
}

const asState = "it is a state as Salt writes it, and does nothing here: "

// Misplaced returns why a pair at the top of a settings file is a part of an .sls file, or an empty text. functions
// are the names of the functions of states.
func Misplaced(p strictyaml.Pair, functions []string) string {
	switch {
	case p.Key == "include" && p.Value.Kind == strictyaml.List, p.Key == "extend" && p.Value.Kind == strictyaml.Map:
		return "Salt's " + p.Key + " does nothing here" + Hint(Top, p.Key)
	case p.Value.Kind != strictyaml.Map:
		return ""
	}
	for _, field := range p.Value.Map {
		isKnown := slices.Contains(functions, field.Key) || Hint(Function, field.Key) != ""
		if isKnown && field.Value.Kind == strictyaml.List {
			return asState + "indent it below states:, and write the list below " + field.Key + " as one map"
		}
		if module, function, short := shortForm(field); short {
			return asState + "write it below states: with " + module + "." + function
		}
	}
	return ""
}

// shortForm reads pkg: [installed, …] and pkg: installed.
func shortForm(p strictyaml.Pair) (module, function string, ok bool) {
	first := p.Value
	if first.Kind == strictyaml.List && len(first.List) > 0 {
		first = first.List[0]
	}
	function, isText := first.Value.(string)
	modules := map[string][]string{
		"pkg": {"installed", "latest", "removed", "purged"}, "service": {"running", "dead", "enabled"},
		"file":  {"managed", "directory", "recurse", "absent", "symlink"},
		"group": {"present", "absent"},
		"cmd":   {"run", "wait"},
	}
	return p.Key, function, isText && slices.Contains(modules[p.Key], function)
}

// AsMap returns the hint for a list of maps in the place of a map, as Salt writes arguments; empty for other values.
func AsMap(n *strictyaml.Node) string {
	if n.Kind != strictyaml.List || len(n.List) == 0 || n.List[0].Kind != strictyaml.Map {
		return ""
	}
	var keys []string
	for _, element := range n.List {
		for _, p := range element.Map {
			keys = append(keys, p.Key+": …")
		}
	}
	return "; Salt writes a list here: write one map, {" + strings.Join(keys[:min(len(keys), 3)], ", ") + "}"
}

// AsName returns the hint for {pkg: nginx} in the place of the name of a state; empty for other values.
func AsName(n *strictyaml.Node) string {
	if n.Kind != strictyaml.Map || len(n.Map) != 1 {
		return ""
	}
	name, ok := n.Map[0].Value.Value.(string)
	if !ok {
		return ""
	}
	return "; Salt writes the module too: write the name of the state, " + name
}

// statement matches a statement or a comment of Jinja.
var statement = regexp.MustCompile(`\{%[-+]?\s*(if|elif|else|endif|for|endfor|set|endset|from|import|include|` +
	`extends|block|endblock|macro|endmacro|call|filter|raw|endraw|with|do)\b|\{#[-+]?\s[^{}]*#\}`)

// Jinja returns where the text has a statement of Jinja, in bytes, or false.
func Jinja(text string) (at int, found bool) {
	match := statement.FindStringIndex(text)
	if match == nil {
		return 0, false
	}
	return match[0], true
}
