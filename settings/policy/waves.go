package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Limits of waves.
const (
	MaxWaves    = 20
	MaxPeels    = 1_000_000
	MaxSoak     = 7 * 24 * time.Hour
	MinDeadline = time.Minute
	MaxDeadline = 7 * 24 * time.Hour
	// MaxTarget is the longest target of a wave or freeze in bytes, with its node groups expanded.
	MaxTarget = 2048
)

// A Wave is one step of a rollout. Peels that are in no wave get the revision after the last wave has passed.
type Wave struct {
	Name string `json:"name"`
	// Peels is the number of changed peels that have the revision after this wave, including the peels of earlier
	// waves.
	Peels Quantity `json:"peels"`
	// Target is the expression that selects the peels of the wave, with its node groups expanded. If empty, every peel
	// may be chosen.
	Target string `json:"target,omitempty"`
	// Soak is how long the peels of the wave are watched after they have applied the revision.
	Soak time.Duration `json:"soak,omitempty"`
	// MaxFailures is the number of peels that may fail before the rollout stops, including the peels of earlier waves.
	MaxFailures Quantity `json:"max_failures"`
	Gate        Gate     `json:"gate,omitempty"`
	// Deadline is the time in which the peels of the wave have to apply the revision. Zero is no deadline.
	Deadline time.Duration `json:"deadline,omitempty"`
}

// A Gate says when the next wave starts after a wave has passed.
type Gate string

// The gates.
const (
	GateAuto   Gate = ""       // at once
	GateManual Gate = "manual" // after an operator has approved it
)

// A Quantity limits a number of peels by a count and by a percentage. "5" is {5, 100}, and "5%" is {MaxPeels, 5}.
type Quantity struct {
	Count   int `json:"count"`
	Percent int `json:"percent"`
}

// AllPeels is the Quantity without a limit.
var AllPeels = Quantity{MaxPeels, 100}

// Of returns the quantity for n peels, with the percentage rounded up.
func (q Quantity) Of(n int) int { return min(q.Count, (n*q.Percent+99)/100) }

// Within returns the quantity for n peels, with the percentage rounded down. The count does not depend on n.
func (q Quantity) Within(n int) int {
	if q.Percent >= 100 {
		return q.Count
	}
	return min(q.Count, n*q.Percent/100)
}

// String returns the quantity as in zester.yaml, with both limits if it has two.
func (q Quantity) String() string {
	switch {
	case q == AllPeels:
		return "100%"
	case q.Percent >= 100:
		return strconv.Itoa(q.Count)
	case q.Count >= MaxPeels:
		return strconv.Itoa(q.Percent) + "%"
	}
	return fmt.Sprintf("%d, at most %d%%", q.Count, q.Percent)
}

var (
	waveName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)
	hashName = regexp.MustCompile(`^[0-9a-f]{8,}$`)
	percents = regexp.MustCompile(`^([1-9][0-9]?|100) ?%$`)
	numbers  = regexp.MustCompile(`^[-+0-9. ]*%*$`)
)

// readWaves reads the list of waves; n may be nil.
func readWaves(n *strictyaml.Node, groups target.Groups) ([]Wave, strictyaml.Errors) {
	list, errs := elements(n, "waves", "a list of waves", MaxWaves)
	var waves []Wave
	names := map[string]bool{}
	for i, e := range list {
		w, bad := readWave(e, fmt.Sprintf("waves[%d]", i), groups)
		if w.Name != "" && names[w.Name] {
			bad = append(bad, strictyaml.Error{
				Pos:  e.Pos,
				Path: fmt.Sprintf("waves[%d].name", i),
				Msg:  fmt.Sprintf("there are two waves %q", w.Name),
			})
		}
		names[w.Name] = true
		waves, errs = append(waves, w), append(errs, bad...)
	}
	return waves, errs
}

// elements returns the elements of a list; n may be nil.
func elements(n *strictyaml.Node, path, want string, most int) ([]*strictyaml.Node, strictyaml.Errors) {
	switch {
	case n == nil || n.Kind == strictyaml.Null:
		return nil, nil
	case n.Kind != strictyaml.List:
		return nil, strictyaml.Errors{{Pos: n.Pos, Path: path, Msg: n.Mismatch(want)}}
	case len(n.List) > most:
		return nil, strictyaml.Errors{
			{Pos: n.Pos, Path: path, Msg: fmt.Sprintf("there are %d elements, the limit is %d", len(n.List), most)},
		}
	}
	return n.List, nil
}

// waveKeys are all keys of a wave.
type waveKeys struct {
	Name        string           `yaml:"name"`
	Peels       *strictyaml.Node `yaml:"peels"`
	Soak        time.Duration    `yaml:"soak"`
	MaxFailures *strictyaml.Node `yaml:"max_failures"`
	Gate        *strictyaml.Node `yaml:"gate"`
	Deadline    *strictyaml.Node `yaml:"deadline"`
}

func readWave(n *strictyaml.Node, path string, groups target.Groups) (w Wave, errs strictyaml.Errors) {
	refuse := func(at *strictyaml.Node, key, msg string) {
		known := slices.ContainsFunc(errs, func(e strictyaml.Error) bool { return e.Path == path+key })
		if msg == "" || known {
			return
		}
		if at == nil {
			at = n
		}
		errs = append(errs, strictyaml.Error{Pos: at.Pos, Path: path + key, Msg: msg})
	}
	if n.Kind != strictyaml.Map {
		refuse(n, "", n.Mismatch("a map with name and peels"))
		return w, errs
	}
	var keys waveKeys
	if bad, ok := strictyaml.Decode(n, &keys).(strictyaml.Errors); ok {
		for _, e := range bad {
			e.Path = path + "." + e.Path
			errs = append(errs, e)
		}
	}
	w = Wave{Name: keys.Name, Soak: keys.Soak}
	if w.Soak < 0 || w.Soak > MaxSoak {
		refuse(n.Get("soak"), ".soak", "must be between 0 and 7d")
	}
	var msg string
	w.Gate, msg = readGate(keys.Gate)
	refuse(keys.Gate, ".gate", msg)
	switch {
	case !waveName.MatchString(w.Name):
		refuse(n.Get("name"), ".name", "a wave needs a name of letters, digits, '.', '_' and '-', 32 at most")
	case w.Gate == GateManual && hashName.MatchString(w.Name):
		refuse(
			n.Get("name"), ".name",
			"a wave with a manual gate cannot have a name that looks like a hash: zester sync approve takes either",
		)
	}
	w.MaxFailures, msg = readFailures(keys.MaxFailures)
	refuse(keys.MaxFailures, ".max_failures", msg)
	w.Deadline, msg = readDeadline(keys.Deadline)
	refuse(keys.Deadline, ".deadline", msg)
	w.Peels, w.Target, msg = readPeels(keys.Peels, groups)
	refuse(keys.Peels, ".peels", msg)
	return w, errs
}

// readPeels reads a number, a percentage or a target; n may be nil. msg is empty if there is no mistake.
func readPeels(n *strictyaml.Node, groups target.Groups) (s Quantity, expr, msg string) {
	const want = "must be a number of peels from 1, a share like 5%, or a target like 'canary-*'"
	if n == nil {
		return s, "", want
	}
	switch v := n.Value.(type) {
	case int64:
		if v >= 1 && v <= MaxPeels {
			return Quantity{int(v), 100}, "", ""
		}
	case string:
		if s, ok := readPercent(v); ok && s.Percent > 0 {
			return s, "", ""
		}
		if !numbers.MatchString(v) {
			expr, msg = readTarget(v, groups)
			return AllPeels, expr, msg
		}
	}
	return s, "", want
}

// readTarget reads an expression. It cannot use settings, as a revision changes them.
func readTarget(text string, groups target.Groups) (expr, msg string) {
	e, err := target.Parse(text, target.Options{Groups: groups, NoSettings: true})
	if err != nil {
		return "", err.Error()
	}
	if expr = e.Expanded(); len(expr) > MaxTarget {
		return "", fmt.Sprintf("the target has %d bytes with its node groups expanded, the limit is %d", len(expr),
			MaxTarget)
	}
	return expr, ""
}

// readPercent reads a percentage from 0 to 100.
func readPercent(text string) (Quantity, bool) {
	number, ok := strings.CutSuffix(text, "%")
	if ok && strings.TrimSuffix(number, " ") == "0" {
		return Quantity{MaxPeels, 0}, true
	}
	if !percents.MatchString(text) {
		return Quantity{}, false
	}
	percent, err := strconv.Atoi(strings.TrimRight(text, " %"))
	if percent == 100 {
		return AllPeels, err == nil
	}
	return Quantity{MaxPeels, percent}, err == nil
}

// readFailures reads a number or a percentage; n may be nil.
func readFailures(n *strictyaml.Node) (s Quantity, msg string) {
	const want = "must be a number of peels from 0, or a share like 5%"
	if n == nil || n.Kind == strictyaml.Null {
		return Quantity{0, 100}, ""
	}
	switch v := n.Value.(type) {
	case int64:
		if v >= 0 {
			return Quantity{int(min(v, MaxPeels)), 100}, ""
		}
	case string:
		if s, ok := readPercent(v); ok {
			return s, ""
		}
	}
	return Quantity{0, 100}, want
}

// readGate reads the word under gate; n may be nil.
func readGate(n *strictyaml.Node) (g Gate, msg string) {
	switch {
	case n == nil || n.Kind == strictyaml.Null || n.Value == "auto":
		return GateAuto, ""
	case n.Value == "manual":
		return GateManual, ""
	}
	return GateManual, n.Mismatch("auto or manual")
}

// readDeadline reads a duration; n may be nil.
func readDeadline(n *strictyaml.Node) (d time.Duration, msg string) {
	if n == nil || n.Kind == strictyaml.Null {
		return 0, ""
	}
	d, err := n.Duration()
	switch {
	case err != nil:
		return 0, err.Error()
	case d < MinDeadline || d > MaxDeadline:
		return 0, "must be between 1m and 7d"
	}
	return d, ""
}
