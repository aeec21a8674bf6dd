package movein

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A requisite of Salt and what it is here.
type requisite struct {
	salt, here string
	any        bool // Salt is satisfied with one of several
}

var requisites = []requisite{
	{"require", "require", false},
	{"require_any", "require", true},
	{"watch", "watch", false},
	{"watch_any", "watch", true},
	{"listen", "watch", false},
	{"onchanges", "onchanges", false},
	{"onchanges_any", "onchanges", false},
	{"onfail", "onfail", false},
	{"onfail_any", "onfail", false},
}

// turnAround gives each state the requisites that others have for it: require_in, watch_in and so on. Requisites that
// name no state stay, and their declaration is refused.
func turnAround(low []Declaration) {
	for i, d := range low {
		for _, r := range requisites {
			value, ok := d.args[r.salt+"_in"]
			if !ok {
				continue
			}
			elements := listOf(value)
			for j := range low {
				if j != i && slices.ContainsFunc(elements, func(e any) bool { return matches(low[j], e) }) {
					before := listOf(low[j].args[r.salt])
					low[j].args[r.salt] = append(slices.Clone(before), map[string]any{d.State: d.ID})
					delete(low[i].args, r.salt+"_in")
				}
			}
		}
	}
}

// isLate reports whether a declaration listens to one that runs after it. Salt reacts at the end of a run.
func isLate(h *Minion, at int) bool {
	causes := named(h, listOf(h.Low[at].args["listen"]), at)
	return slices.ContainsFunc(causes, func(cause int) bool { return cause > at })
}

// named returns the declarations of a host, but for one, that requisites name.
func named(h *Minion, elements []any, but int) (found []int) {
	for i := range h.Low {
		if i != but && slices.ContainsFunc(elements, func(e any) bool { return matches(h.Low[i], e) }) {
			found = append(found, i)
		}
	}
	return found
}

// reaction returns the state that does what Salt does at the end of a run if one of the causes changed: it restarts a
// service, or runs a command again. Other functions do nothing then.
func (n *naming) reaction(c *conversion, at int, of made, causes any) []made {
	field := map[string]string{"service.running": "watch", "cmd.run": "onchanges"}[of.function]
	names, err := n.resolve(c.host, causes, at)
	if field == "" || err != nil {
		return nil
	}
	p := n.places[c.host][at]
	p.module += " listen"
	if n.names[p] == "" {
		n.names[p] = claim(of.name+"-listen", n.taken)
	}
	again := of.alone() // with its guards
	again.name, again.fields[field], again.isLate = n.names[p], names, true
	return []made{again}
}

// listOf returns a list, or a list with one value; nil for nil.
func listOf(value any) []any {
	if list, isList := value.([]any); isList || value == nil {
		return list
	}
	return []any{value}
}

// fieldsOf returns the requisites and guards of the declaration at an index of the host.
func (n *naming) fieldsOf(c *conversion, at int) (map[string]any, error) {
	fields := map[string]any{}
	for _, r := range requisites {
		value, ok := c.take(r.salt)
		if !ok {
			continue
		}
		names, err := n.resolve(c.host, value, at)
		if err != nil {
			return nil, refuse("requisite %s: %v", r.salt, err)
		}
		if r.any && len(names) > 1 {
			c.note("requisite " + r.salt + ": the state is skipped if one of them fails: Salt skips it if all fail")
		}
		here := c.kindOf(r)
		before, _ := fields[here].([]string)
		for _, name := range names {
			if !slices.Contains(before, name) {
				before = append(before, name)
			}
		}
		if len(before) > 0 {
			fields[here] = before
		}
	}
	if c.isWaiting() && fields["onchanges"] == nil {
		return nil, refuse("a wait without watch, which never runs")
	}
	return fields, c.guards(fields)
}

// kindOf returns what a requisite of the declaration is here. A service alone reacts to what it watches. A function of
// the module test changes only with what it watches.
func (c *conversion) kindOf(r requisite) string {
	switch {
	case c.State == "test" && r.here == "onchanges":
		return "require"
	case r.here != "watch" || c.Function() == "service.running":
		return r.here
	case c.isWaiting() || c.State == "test":
		return "onchanges"
	}
	if c.Function() == "mount.mounted" {
		c.note("requisite " + r.salt + ": a mount is not made again after a change, as it is in Salt")
	}
	return "require"
}

// isWaiting reports whether the declaration does something only if what it watches changes.
func (c *conversion) isWaiting() bool { return strings.HasPrefix(c.Fun, "wait") || c.Fun == "watch" }

// guards reads what decides whether and how often a state runs.
func (c *conversion) guards(fields map[string]any) error {
	for _, guard := range []string{"onlyif", "unless"} {
		value, ok := c.take(guard)
		if !ok {
			continue
		}
		commands, ok := texts(value)
		if !ok {
			return refuse("argument %s: a function of Salt: a command, such as test -e PATH", guard)
		}
		if slices.ContainsFunc(listOf(value), func(e any) bool { _, isText := e.(string); return !isText }) {
			return refuse("argument %s: a value of another form", guard) // Salt fails
		}
		for i, command := range commands {
			if program := c.shellFor(command); program != "" {
				commands[i] = program + " -c " + shell.Quote(command)
			}
		}
		if guard == "unless" && len(commands) > 1 {
			// Salt skips the state if all of them succeed, and a peel if one does. A comment ends with its line.
			commands = []string{"(\n" + strings.Join(commands, "\n) && (\n") + "\n)"}
		}
		fields[guard] = commands
	}
	if c.left["parallel"] == true {
		c.take("parallel")
		c.note("argument parallel is left out: the states of a host run one after another")
	}
	if c.takeBool("failhard", false) {
		fields["failhard"] = true
	}
	if limit := c.left["timeout"]; limit != nil && c.State == "cmd" {
		c.take("timeout")
		seconds, err := strconv.Atoi(plain(limit))
		if err != nil {
			return refuse("argument timeout: a value of another form")
		}
		fields["timeout"] = strictyaml.FormatDuration(time.Duration(seconds) * time.Second)
	}
	retry, ok := c.take("retry")
	if !ok || retry == false {
		return nil
	}
	attempts, interval := "2", "30"
	options, isMap := retry.(map[string]any)
	if !isMap && retry != true {
		return refuse("argument retry: a value of another form")
	}
	if isMap {
		if options["until"] == false {
			return refuse("argument retry: until")
		}
		attempts, interval = number(options["attempts"], attempts), number(options["interval"], interval)
		if splay := number(options["splay"], "0"); splay != "0" {
			c.note("argument retry: splay is left out, it has no counterpart")
		}
	}
	times, err := strconv.Atoi(attempts)
	if err != nil {
		return refuse("argument retry: a value of another form")
	}
	if times > maxAttempts {
		c.note(fmt.Sprintf("argument retry: %d attempts instead of %d", maxAttempts, times))
	}
	fields["retry"] = map[string]any{"attempts": min(times, maxAttempts), "interval": interval + "s"}
	return nil
}

// maxAttempts is how often a state is tried at most.
const maxAttempts = 10

// number returns a number or a text as text.
func number(v any, otherwise string) string {
	if v != nil {
		return plain(v)
	}
	return otherwise
}

// resolve returns the names of the states that a list of requisites names.
func (n *naming) resolve(h *Minion, value any, self int) ([]string, error) {
	var all []string
	for _, element := range listOf(value) {
		found := false
		for i := range h.Low {
			if i != self && matches(h.Low[i], element) {
				all = append(all, n.of(h, i)...)
				found = true
			}
		}
		if !found {
			return nil, refuse("it names no state")
		}
	}
	return all, nil
}

// matches reports whether a requisite names a declaration: {pkg: nginx}, {sls: web} or nginx.
func matches(d Declaration, element any) bool {
	if id, isText := element.(string); isText {
		return d.ID == id || d.Name == id
	}
	fields, _ := element.(map[string]any)
	for key, value := range fields {
		want := plain(value)
		switch key {
		case "sls":
			if glob(want, d.SLS) {
				return true
			}
		case "id":
			if glob(want, d.ID) {
				return true
			}
		case d.State, d.Function():
			if glob(want, d.ID) || glob(want, d.Name) {
				return true
			}
		}
	}
	return false
}

func glob(pattern, text string) bool {
	if pattern == text {
		return true
	}
	flat := strings.NewReplacer("/", "\x00", `\`, `\\`, "[!", "[^") // a * of Python matches slashes
	ok, err := path.Match(flat.Replace(pattern), strings.ReplaceAll(text, "/", "\x00"))
	return err == nil && ok
}
