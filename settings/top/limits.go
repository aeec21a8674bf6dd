package top

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Limits say how much a revision may change before it waits for approval. A setting is a schedule entry or one value
// beside the schedule, counted on each peel that has it.
type Limits struct {
	Change Limit `json:"change"` // share of the fleet's settings that may change or go
	Remove Limit `json:"remove"` // share of the fleet's settings that may go with nothing in their place
	Peels  Limit `json:"peels"`  // share of the peels with settings that may lose one with nothing in its place
}

// A Limit is a share in percent, or [Off].
type Limit int

// Off is above every share.
const Off Limit = 101

// DefaultLimits are the limits of a repo that sets none. They let a revision pass that replaces half of the settings, and
// stop one that removes more than a tenth with nothing in their place.
var DefaultLimits = Limits{Change: 50, Remove: 10, Peels: 50}

// Exceeded reports whether n is a larger share of all than the limit. At the limit it is not.
func (l Limit) Exceeded(n, all int) bool { return l != Off && 100*n > int(l)*all }

// String gives the limit as zester.yaml has it.
func (l Limit) String() string {
	if l == Off {
		return "off"
	}
	return strconv.Itoa(int(l)) + "%"
}

// Stricter returns the lower limit of each kind. A revision cannot widen the limits for itself.
func (l Limits) Stricter(other Limits) Limits {
	return Limits{min(l.Change, other.Change), min(l.Remove, other.Remove), min(l.Peels, other.Peels)}
}

// readLimits reads the map under limits; n may be nil.
func readLimits(n *strictyaml.Node) (Limits, strictyaml.Errors) {
	limits := DefaultLimits
	if n == nil || n.Kind == strictyaml.Null {
		return limits, nil
	}
	if n.Kind != strictyaml.Map {
		return limits, strictyaml.Errors{{Pos: n.Pos, Path: "limits", Msg: n.Mismatch("a map of change, remove and peels")}}
	}
	var keys struct {
		Change *strictyaml.Node `yaml:"change"`
		Remove *strictyaml.Node `yaml:"remove"`
		Peels  *strictyaml.Node `yaml:"peels"`
	}
	var errs strictyaml.Errors
	if bad, ok := strictyaml.Decode(n, &keys).(strictyaml.Errors); ok {
		for _, e := range bad {
			e.Path = "limits." + e.Path
			errs = append(errs, e)
		}
	}
	for _, k := range []struct {
		name string
		node *strictyaml.Node
		to   *Limit
	}{{"change", keys.Change, &limits.Change}, {"remove", keys.Remove, &limits.Remove}, {"peels", keys.Peels, &limits.Peels}} {
		if k.node == nil {
			continue
		}
		limit, ok := readLimit(k.node)
		if !ok {
			errs = append(errs, strictyaml.Error{Pos: k.node.Pos, Path: "limits." + k.name, Msg: fmt.Sprintf("must be a share like %s, or off", *k.to)})
			continue
		}
		*k.to = limit
	}
	return limits, errs
}

func readLimit(n *strictyaml.Node) (Limit, bool) {
	text, ok := n.Value.(string)
	if text == "off" {
		return Off, true
	}
	if number, ok := strings.CutSuffix(text, "%"); ok && strings.TrimSuffix(number, " ") == "0" {
		return 0, true
	}
	if !ok || !percents.MatchString(text) {
		return 0, false
	}
	number, err := strconv.Atoi(strings.TrimRight(text, " %"))
	return Limit(number), err == nil
}
