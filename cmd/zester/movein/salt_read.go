package movein

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Minion is what Salt says about one host.
type Minion struct {
	ID     string
	Low    []Declaration // in the order in which Salt runs them
	Pillar map[string]any
	Grains map[string]any
}

// A Declaration is a chunk of the lowstate: one state of one host, rendered.
type Declaration struct {
	SLS, ID, State, Fun, Name string

	args  map[string]any // the other keys
	place string         // for people: its file and its name here
}

// Function returns the name of the function in Salt.
func (d Declaration) Function() string { return d.State + "." + d.Fun }

// ReadSalt reads what salt prints with --out json: one object with the hosts as keys, or one for each host.
func ReadSalt[T any](in io.Reader) (map[string]T, error) {
	all := map[string]T{}
	dec := json.NewDecoder(in)
	dec.UseNumber()
	for {
		var hosts map[string]json.RawMessage
		err := dec.Decode(&hosts)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("it is not what salt prints with --out json --static: %w", err)
		}
		for host, raw := range hosts {
			if _, isTwice := all[host]; isTwice {
				return nil, fmt.Errorf("host %s: it has two answers, take out the old one", host)
			}
			if all[host], err = decode[T](raw); err != nil {
				return nil, fmt.Errorf("host %s: %w", host, err)
			}
		}
	}
}

func decode[T any](raw json.RawMessage) (value T, err error) {
	var messages []string
	if json.Unmarshal(raw, &messages) == nil && len(messages) > 0 {
		return value, fmt.Errorf("salt could not render its states: %s", messages[0])
	}
	var message string
	if json.Unmarshal(raw, &message) == nil {
		return value, fmt.Errorf("salt got no answer: %s", message)
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return value, fmt.Errorf("cannot use what salt printed: %w", err)
	}
	return value, nil
}

// Minions puts together what ReadSalt returned of lowstates, pillars and grains. Hosts without a lowstate are left out.
func Minions(low map[string][]map[string]any, pillar, grains map[string]map[string]any) ([]Minion, error) {
	hosts := make([]Minion, 0, len(low))
	for _, id := range slices.Sorted(maps.Keys(low)) {
		if _, err := target.ParsePeelID(id); err != nil { // it would be a target of other hosts
			return nil, fmt.Errorf("cannot have the minion %q as a peel, take it out of the input: %w", id, err)
		}
		h := Minion{ID: id, Pillar: pillar[id], Grains: grains[id]}
		for i, raw := range low[id] {
			d, err := declaration(raw)
			if err != nil {
				return nil, fmt.Errorf("host %s, declaration %d: %w", id, i+1, err)
			}
			h.Low = append(h.Low, d)
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

func declaration(raw map[string]any) (Declaration, error) {
	args := maps.Clone(raw)
	var d Declaration
	for _, key := range []struct {
		name string
		into *string
	}{
		{"__sls__", &d.SLS},
		{"__id__", &d.ID},
		{"state", &d.State},
		{"fun", &d.Fun},
		{"name", &d.Name},
	} {
		value, ok := args[key.name].(string)
		if !ok {
			return d, fmt.Errorf("the key %s has no text", key.name)
		}
		*key.into = value
		delete(args, key.name)
	}
	delete(args, "order") // the list has the order; the number of a declaration differs between hosts
	for name, value := range args {
		isCall := d.State == "module" && strings.Contains(name, ".") // of a function, which may have no arguments
		if value == nil && !isCall || strings.HasPrefix(name, "__") {
			delete(args, name)
		}
	}
	d.args = args
	return d, nil
}
