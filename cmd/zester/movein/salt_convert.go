package movein

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	zstate "github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// An attempt is what became of one declaration.
type attempt struct {
	states []made
	notes  []string
	err    error
	also   []string // further reasons why it is not converted

	files    map[string][]byte // that the states need, by their path in the repo
	programs []string          // the files that are executable
}

// convert returns the states of the declarations of a host.
func (n *naming) convert(h *Minion, src *sources, report *tally) ([][]made, error) {
	all := make([]attempt, len(h.Low))
	for at := range h.Low {
		all[at] = n.attempt(h, at, src)
	}
	if err := refuseTwins(all); err != nil {
		return nil, fmt.Errorf("host %s: %w", h.ID, err)
	}
	n.bridge(h, all)
	states := make([][]made, len(h.Low))
	for at, a := range all {
		var err error
		if states[at], err = n.count(h, at, a, src, report); err != nil {
			return nil, fmt.Errorf("host %s, state %s: %w", h.ID, h.Low[at].ID, err)
		}
	}
	return states, nil
}

// refuseTwins refuses a declaration of something that an earlier one is about, unless both say the same of it. Lint
// would refuse the two together.
func refuseTwins(all []attempt) error {
	var states []made
	of := map[string]int{} // the declaration of each state
	for at, a := range all {
		for _, m := range a.states {
			of[zstate.Key+"."+m.name] = at
			states = append(states, m.alone())
		}
	}
	list, err := problemsOf(states)
	if err != nil {
		return err
	}
	for _, e := range list {
		_, contrast, isTwin := strings.Cut(e.Msg, ", with ")
		if at, known := of[e.Path]; known && isTwin {
			all[at] = attempt{
				err: refuse("another state has the same, with %s: write what both need into one", contrast),
			}
		}
	}
	return nil
}

// count adds what became of a declaration to the report, and returns its states.
func (n *naming) count(h *Minion, at int, a attempt, src *sources, report *tally) ([]made, error) {
	d := h.Low[at]
	key := identity(d)
	d.place = src.hidden.cover(d.SLS) + ": " + n.of(h, at)[0]
	isNew := !report.seen[key]
	report.seen[key] = true

	refused, isRefused := errors.AsType[*refusal](a.err)
	switch {
	case isRefused:
		reasons := append([]string{refused.reason}, a.also...)
		for i := range reasons {
			reasons[i] = src.hidden.cover(reasons[i])
			report.add("refused", d, reasons[i], h.ID, isNew)
		}
		if isNew {
			report.refused++
		}
		return []made{disabled(n.of(h, at)[0], d, reasons, src.hidden)}, nil
	case a.err != nil:
		return nil, a.err
	}
	for _, note := range a.notes {
		note = src.hidden.cover(note)
		report.add("note", d, note, h.ID, isNew)
		a.states[0].comment = append(a.states[0].comment, noteMark+note)
	}
	return a.states, nil
}

// noteMark begins a note in a settings file.
const noteMark = "note: "

// identity returns a text that equal declarations share.
func identity(d Declaration) string {
	text, err := json.Marshal([]any{d.SLS, d.ID, d.Function(), d.Name, d.args})
	if err != nil {
		panic(err) // it was JSON
	}
	return string(text)
}

// attempt converts a declaration. If it is refused, attempt looks for all reasons: it tries again without what was
// refused.
func (n *naming) attempt(h *Minion, at int, src *sources) attempt {
	d := h.Low[at]
	first := n.try(h, at, d, src)
	maps.Copy(src.copied, first.files)
	for _, program := range first.programs {
		src.programs[program] = true
	}
	refused, isRefused := errors.AsType[*refusal](first.err)
	d.args = maps.Clone(d.args)
	hasSource := d.args["source"] != nil
	for isRefused && d.args[refused.argument()] != nil {
		delete(d.args, refused.argument())
		if refused, isRefused = errors.AsType[*refusal](n.try(h, at, d, src).err); !isRefused {
			break
		}
		_, isGiven := d.args[refused.argument()] // or it may be missing because it was taken out
		if isGiven || refused.argument() == "" && hasSource == (d.args["source"] != nil) {
			first.also = append(first.also, refused.reason)
		}
	}
	return first
}

// try converts a declaration, if it has no more than one thing that is refused. If it listens to what runs after it, it
// reacts in a state of its own.
func (n *naming) try(h *Minion, at int, d Declaration, src *sources) attempt {
	r, ok := rules[d.Function()]
	if !ok {
		return attempt{err: refuse("no such function here%s", insteadOf(d.Function()))}
	}
	c := &conversion{
		Declaration: d, host: h, source: src, left: maps.Clone(d.args), args: maps.Clone(r.fixed),
		files: map[string][]byte{}, function: r.function,
	}
	if c.args == nil {
		c.args = map[string]any{}
	}
	if r.main != "" {
		c.args[r.main] = d.Name
	}
	var listens any
	late := isLate(h, at)
	if late {
		listens, _ = c.take("listen")
	} else if c.left["listen"] != nil {
		c.note(forAll + "what listens is skipped if the state that it listens to fails: in Salt it runs")
	}
	fields, err := n.fieldsOf(c, at)
	c.fields = fields
	if err == nil && r.before != nil {
		err = r.before(c)
	}
	if err == nil {
		err = c.rename(r)
	}
	if err = cmp.Or(c.err, err); err != nil {
		return attempt{err: err}
	}
	if c.function == "cmd.run" {
		c.guardAsCommand()
	}
	if d.State != "file" && c.function == "cmd.run" && !c.isDone && len(c.unless) == 0 &&
		!isGuarded(fields, c.args) {
		c.note("the command runs in each run of the states, and test=true cannot predict what it changes; " +
			"onlyif, unless or creates says when it is needed")
	}
	var states []made
	if c.function == "" || c.isDone {
		states = []made{c.relay(n.of(h, at)[0], n.isObserved(h, at))}
	} else {
		states = c.states(n.of(h, at)[0], fields)
	}
	if late && !c.isDone {
		states = append(states, n.reaction(c, at, states[0], listens)...)
	}
	for i := range states {
		if err := states[i].hide(src.hidden); err != nil {
			return attempt{err: err}
		}
		if err := states[i].check(); err != nil {
			return attempt{err: err}
		}
	}
	return attempt{states: states, notes: c.notes, files: c.files, programs: c.programs}
}

// isGuarded reports whether something says when a command is needed.
func isGuarded(fields, args map[string]any) bool {
	return fields["onlyif"] != nil || fields["unless"] != nil || fields["onchanges"] != nil || args["creates"] != nil
}

// rename gives the arguments that are left their names here. It refuses one that nothing reads and that may change
// something.
func (c *conversion) rename(r rule) error {
	for _, name := range slices.Sorted(maps.Keys(c.left)) {
		a, isRead := r.args[name]
		switch {
		case c.isIgnored(name, c.left[name]):
		case isRead && a.here != "":
			v, err := a.kind.value(name, c.left[name])
			if err != nil {
				return err
			}
			c.args[a.here] = v
		case isRead:
			c.leaveOut(name, c.left[name])
		default:
			return refuse("argument %s%s", name, c.insteadOfArgument(name))
		}
	}
	return nil
}

// leaveOut notes that an argument is left out.
func (c *conversion) leaveOut(name string, value any) {
	c.note("argument " + name + ": " + plain(value) + " is left out, it has no counterpart")
}

// states returns the states of the conversion. The one of the function has the name.
func (c *conversion) states(name string, fields map[string]any) []made {
	var states []made
	for _, m := range c.first {
		states = append(states, m.within(fields))
	}
	main := made{function: c.function, args: c.args}
	if len(c.unless) > 0 {
		main.fields = map[string]any{"unless": c.unless}
	}
	states = append(states, main.within(fields))
	for _, args := range c.more {
		states = append(states, made{function: c.function, args: args, fields: fields})
	}
	for _, m := range c.then {
		m = m.within(fields)
		if m.reacts {
			m.fields["onchanges"] = []string{name}
		}
		states = append(states, m)
	}
	_, hasOnlyIf := c.Declaration.args["onlyif"]
	_, hasUnless := c.Declaration.args["unless"]
	if len(states) > 1 && (hasOnlyIf || hasUnless) {
		c.note("onlyif and unless are run before each of the states, in Salt once: a later one is skipped if an " +
			"earlier one does what they look for")
	}
	at, nth := len(c.first), 1
	for i := range states {
		states[i].name = name
		if i != at {
			nth++
			states[i].name = partName(name, nth)
		}
		// The states of one function that differ in their names alone need no order.
		if i > 0 && (i <= at || i > at+len(c.more)) {
			before, _ := states[i].fields["require"].([]string)
			states[i].fields = maps.Clone(states[i].fields)
			states[i].fields["require"] = union(before, []string{states[i-1].name})
		}
	}
	return states
}

// within returns a state of a declaration with the requisites and guards of the declaration beside its own guards.
func (m made) within(fields map[string]any) made {
	all := maps.Clone(fields)
	for name, guards := range m.fields {
		all[name] = append(guardsOf(all, name), guards.([]string)...)
	}
	m.fields = all
	return m
}

// disabled returns a state that does nothing, with the declaration in a comment.
func disabled(name string, d Declaration, reasons []string, hidden secrets) made {
	var args strings.Builder
	enc := json.NewEncoder(&args)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(hidden.masked(d.args)); err != nil {
		panic(err) // it was JSON
	}
	var comment []string
	for _, reason := range reasons {
		comment = append(comment, "not converted: "+reason)
	}
	comment = append(comment, "Salt: "+hidden.mask(d.Function())+" "+hidden.mask(d.Name)+" "+
		strings.TrimSpace(args.String()))
	return made{
		name: name, function: "cmd.run", args: map[string]any{"argv": []string{"true"}},
		fields: map[string]any{"enabled": false}, comment: comment,
	}
}

// hide moves the arguments with secrets out of the state. It refuses secrets in arguments that people see.
func (m *made) hide(hidden secrets) error {
	for _, name := range slices.Sorted(maps.Keys(m.args)) {
		if !hidden.in(m.args[name]) && name != "password" {
			continue
		}
		if !zstate.MaySecret(name) {
			return refuse("a secret in the argument %s, which people see: %s", name, unseen(m.function))
		}
		if m.secrets == nil {
			m.secrets = map[string]any{}
		}
		m.secrets[name] = m.args[name]
		delete(m.args, name)
	}
	if m.secrets["vars"] != nil {
		m.secrets["template"] = m.args["template"] // each file is checked alone
	}
	for _, value := range m.fields {
		if hidden.in(value) {
			return refuse("a secret in a command that decides whether it runs")
		}
	}
	return nil
}

// unseen says how a state of a function has a secret.
func unseen(function string) string {
	switch {
	case strings.HasPrefix(function, "file."):
		return "put it into the content of a file.block, or into vars of a file.managed"
	case strings.HasPrefix(function, "cmd."):
		return "give it in env or stdin"
	}
	return "have a command read it from a file"
}

// alone returns the state with its secrets and without its requisites.
func (m made) alone() made {
	m.args = maps.Clone(m.args)
	maps.Copy(m.args, m.secrets)
	fields := map[string]any{}
	maps.Copy(fields, m.fields)
	for _, r := range requisites {
		delete(fields, r.here)
	}
	m.fields = fields
	return m
}

// check reads the state as lint reads it, with its secrets.
func (m made) check() error {
	list, err := problemsOf([]made{m.alone()})
	if len(list) > 0 {
		return refuse("%s", list[0].Msg)
	}
	return err
}

// problemsOf reads states as lint reads them.
func problemsOf(states []made) (strictyaml.Errors, error) {
	text, err := encode(zstate.Key, nodeOf(states))
	if err != nil {
		return nil, err
	}
	doc, err := strictyaml.Parse("state", text)
	if err == nil {
		_, err = zstate.Parse(doc.Get(zstate.Key), zstate.Options{})
	}
	if list, ok := errors.AsType[strictyaml.Errors](err); ok {
		return list, nil
	}
	return nil, err
}
