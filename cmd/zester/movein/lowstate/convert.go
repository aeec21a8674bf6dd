package lowstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/settings/private"
	zstate "github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// convert returns the states of the declaration at an index of the host.
func (n *naming) convert(h *Host, at int, src *sources, hidden map[string]bool, report *tally) ([]made, error) {
	d := h.Low[at]
	key := identity(d)
	isNew := !report.seen[key]
	report.seen[key] = true

	states, notes, err := n.attempt(h, at, src, hidden)
	refused, isRefused := errors.AsType[*refusal](err)
	switch {
	case isRefused:
		report.add("refused", d, refused.reason, h.ID, isNew)
		if isNew {
			report.refused++
		}
		return []made{disabled(n.of(h, at)[0], d, refused.reason, hidden)}, nil
	case err != nil:
		return nil, fmt.Errorf("host %s, state %s: %w", h.ID, d.ID, err)
	}
	for _, note := range notes {
		report.add("note", d, note, h.ID, isNew)
	}
	return states, nil
}

// identity returns a text that equal declarations share.
func identity(d Declaration) string {
	text, err := json.Marshal([]any{d.SLS, d.ID, d.Function(), d.Name, d.args})
	if err != nil {
		panic(err) // it was JSON
	}
	return string(text)
}

func (n *naming) attempt(h *Host, at int, src *sources, hidden map[string]bool) ([]made, []string, error) {
	d := h.Low[at]
	r, ok := rules[d.Function()]
	if !ok {
		return nil, nil, refuse("no such function here")
	}
	c := &conversion{
		Declaration: d, host: h, source: src, hidden: hidden, left: maps.Clone(d.args), args: maps.Clone(r.fixed),
	}
	if c.args == nil {
		c.args = map[string]any{}
	}
	if r.main != "" {
		c.args[r.main] = d.Name
	}
	fields, err := n.fieldsOf(c, at)
	if err == nil && r.before != nil {
		err = r.before(c)
	}
	if err == nil {
		err = c.rename(r)
	}
	if err != nil {
		return nil, nil, err
	}
	if r.function == "" {
		return []made{disabled(n.of(h, at)[0], d, "", hidden)}, c.notes, nil
	}
	states := c.states(r.function, n.of(h, at), fields)
	for i := range states {
		if err := states[i].hide(hidden); err != nil {
			return nil, nil, err
		}
		if err := states[i].check(); err != nil {
			return nil, nil, err
		}
	}
	return states, c.notes, nil
}

// rename gives the arguments that are left their names here.
func (c *conversion) rename(r rule) error {
	for _, name := range everywhere {
		delete(c.left, name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.left)) {
		a, ok := r.args[name]
		if !ok {
			return refuse("argument %s", name)
		}
		if a.kind == dropped {
			continue
		}
		v, err := a.kind.value(name, c.left[name])
		if err != nil {
			return err
		}
		c.args[a.here] = v
	}
	return nil
}

// states returns the states of the conversion.
func (c *conversion) states(function string, names []string, fields map[string]any) []made {
	states := []made{{name: names[0], function: function, args: c.args, fields: fields}}
	for i, args := range c.more {
		states = append(states, made{name: names[i+1], function: function, args: args, fields: fields})
	}
	return states
}

// disabled returns a state that does nothing, with the declaration in a comment.
func disabled(name string, d Declaration, reason string, hidden map[string]bool) made {
	var args strings.Builder
	enc := json.NewEncoder(&args)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(masked(d.args, hidden)); err != nil {
		panic(err) // it was JSON
	}
	comment := []string{"Salt: " + d.Function() + " " + mask(d.Name, hidden) + " " + strings.TrimSpace(args.String())}
	if reason != "" {
		comment = append([]string{"not converted: " + reason}, comment...)
	}
	return made{
		name: name, function: "cmd.run", args: map[string]any{"argv": []string{"true"}},
		fields: map[string]any{"enabled": false}, comment: comment,
	}
}

// masked returns a value without secrets.
func masked(v any, hidden map[string]bool) any {
	switch v := v.(type) {
	case string:
		return mask(v, hidden)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = masked(v[i], hidden)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			if out[name] = masked(value, hidden); private.LooksSecret(name) {
				out[name] = private.Hidden
			}
		}
		return out
	}
	return v
}

func mask(text string, hidden map[string]bool) string {
	for secret := range hidden {
		text = strings.ReplaceAll(text, secret, private.Hidden)
	}
	return private.Hide(text)
}

// secretsOf returns the values of a pillar whose names or shapes say that they are secret.
func secretsOf(pillar map[string]any) map[string]bool {
	found := map[string]bool{}
	var walk func(name string, v any, below bool)
	walk = func(name string, v any, below bool) {
		below = below || private.LooksSecret(name)
		switch v := v.(type) {
		case string:
			if len(v) >= 6 && (below || private.Shape(v) != "") {
				found[v] = true
			}
		case []any:
			for _, element := range v {
				walk(name, element, below)
			}
		case map[string]any:
			for key, value := range v {
				walk(key, value, below)
			}
		}
	}
	walk("", pillar, false)
	return found
}

// hide moves the arguments with secrets out of the state. It refuses secrets in arguments that people see.
func (m *made) hide(hidden map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(m.args)) {
		if !hasSecret(m.args[name], hidden) && name != "password" {
			continue
		}
		if !zstate.MaySecret(name) {
			return refuse("a secret in the argument %s, which people see: give it in env or stdin", name)
		}
		if m.secrets == nil {
			m.secrets = map[string]any{}
		}
		m.secrets[name] = m.args[name]
		delete(m.args, name)
	}
	for _, value := range m.fields {
		if hasSecret(value, hidden) {
			return refuse("a secret in a command that decides whether it runs")
		}
	}
	return nil
}

func hasSecret(v any, hidden map[string]bool) bool {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it has texts, lists and maps alone
	}
	if private.Shape(string(text)) != "" {
		return true
	}
	for secret := range hidden {
		quoted, _ := json.Marshal(secret)
		if strings.Contains(string(text), strings.Trim(string(quoted), `"`)) {
			return true
		}
	}
	return false
}

// check reads the state as lint reads it, with its secrets.
func (m made) check() error {
	m.args = maps.Clone(m.args)
	maps.Copy(m.args, m.secrets)
	fields := maps.Clone(m.fields)
	for _, r := range requisites {
		delete(fields, r.here)
	}
	m.fields = fields
	text, err := encode(map[string]*yaml.Node{zstate.Key: nodeOf([]made{m})})
	if err != nil {
		return err
	}
	doc, err := strictyaml.Parse("state", text)
	if err == nil {
		_, err = zstate.Parse(doc.Get(zstate.Key), zstate.Options{})
	}
	if list, ok := errors.AsType[strictyaml.Errors](err); ok {
		return refuse("%s", list[0].Msg)
	}
	return err
}
