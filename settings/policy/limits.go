package policy

import (
	"fmt"
	"strconv"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Limits say how much a revision may change without approval. A setting is a schedule entry or one value
// beside the schedule, counted on each peel that has it.
type Limits struct {
	Change Limit `json:"change"` // percentage of the fleet's settings that may be changed or removed
	Remove Limit `json:"remove"` // percentage of the fleet's settings that may be removed without a replacement
	Peels  Limit `json:"peels"`  // percentage of the peels with settings that may lose one without a replacement
}

// A Limit is a percentage, or [Off].
type Limit int

// Off is the Limit that is never exceeded.
const Off Limit = 101

// DefaultLimits are the limits of a repo that sets none. A revision may replace half of the settings, and remove a
// tenth of them without a replacement.
var DefaultLimits = Limits{Change: 50, Remove: 10, Peels: 50}

// Exceeded reports whether n is more than the limit's percentage of all.
func (l Limit) Exceeded(n, all int) bool { return l != Off && 100*n > int(l)*all }

// String returns the limit as in zester.yaml.
func (l Limit) String() string {
	if l == Off {
		return "off"
	}
	return strconv.Itoa(int(l)) + "%"
}

// readLimits reads the map under limits; n may be nil.
func readLimits(n *strictyaml.Node) (Limits, strictyaml.Errors) {
	limits := DefaultLimits
	if n == nil || n.Kind == strictyaml.Null {
		return limits, nil
	}
	if n.Kind != strictyaml.Map {
		return limits, strictyaml.Errors{
			{Pos: n.Pos, Path: "limits", Msg: n.Mismatch("a map of change, remove and peels")},
		}
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
	}{
		{"change", keys.Change, &limits.Change},
		{"remove", keys.Remove, &limits.Remove},
		{"peels", keys.Peels, &limits.Peels},
	} {
		if k.node == nil {
			continue
		}
		limit, ok := readLimit(k.node)
		if !ok {
			errs = append(errs, strictyaml.Error{
				Pos:  k.node.Pos,
				Path: "limits." + k.name,
				Msg:  fmt.Sprintf("must be a share like %s, or off", *k.to),
			})
			continue
		}
		*k.to = limit
	}
	return limits, errs
}

func readLimit(n *strictyaml.Node) (Limit, bool) {
	text, _ := n.Value.(string)
	if text == "off" {
		return Off, true
	}
	q, ok := readPercent(text)
	return Limit(q.Percent), ok
}
