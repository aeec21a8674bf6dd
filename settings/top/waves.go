package top

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Limits of waves.
const (
	MaxWaves = 20
	MaxSoak  = 7 * 24 * time.Hour
)

// A Wave is one step of a rollout. What the last wave does not reach goes out after it has passed.
type Wave struct {
	Name string
	// Peels is how many of the peels that a revision changes have it with this wave, those of earlier waves included.
	Peels Share
	// Soak is how long the peels of the wave are watched after they have applied the revision.
	Soak time.Duration
	// MaxFailures is how many peels may fail before the rollout stops.
	MaxFailures int
}

// A Share is a number of peels, or that many percent of them.
type Share struct {
	N       int
	Percent bool
}

// Of returns how many of n peels that is, rounded up.
func (s Share) Of(n int) int {
	if s.Percent {
		return (n*s.N + 99) / 100
	}
	return min(s.N, n)
}

// String gives it as it is written.
func (s Share) String() string {
	if s.Percent {
		return strconv.Itoa(s.N) + "%"
	}
	return strconv.Itoa(s.N)
}

var (
	waveName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)
	percents = regexp.MustCompile(`^([1-9][0-9]?|100) ?%$`)
)

// readWaves reads the list of waves; n may be nil.
func readWaves(n *strictyaml.Node) ([]Wave, strictyaml.Errors) {
	switch {
	case n == nil || n.Kind == strictyaml.Null:
		return nil, nil
	case n.Kind != strictyaml.List:
		return nil, strictyaml.Errors{{Pos: n.Pos, Path: "waves", Msg: n.Mismatch("a list of waves")}}
	case len(n.List) > MaxWaves:
		return nil, strictyaml.Errors{{Pos: n.Pos, Path: "waves", Msg: fmt.Sprintf("there are %d waves, the limit is %d", len(n.List), MaxWaves)}}
	}
	var waves []Wave
	var errs strictyaml.Errors
	names := map[string]bool{}
	for i, e := range n.List {
		w, bad := readWave(e, fmt.Sprintf("waves[%d]", i))
		if w.Name != "" && names[w.Name] {
			bad = append(bad, strictyaml.Error{Pos: e.Pos, Path: fmt.Sprintf("waves[%d].name", i), Msg: fmt.Sprintf("there are two waves %q", w.Name)})
		}
		names[w.Name] = true
		waves, errs = append(waves, w), append(errs, bad...)
	}
	return waves, errs
}

// waveKeys are all keys of a wave.
type waveKeys struct {
	Name        string           `yaml:"name"`
	Peels       *strictyaml.Node `yaml:"peels"`
	Soak        time.Duration    `yaml:"soak"`
	MaxFailures int              `yaml:"max_failures"`
}

func readWave(n *strictyaml.Node, path string) (w Wave, errs strictyaml.Errors) {
	refuse := func(at *strictyaml.Node, key, msg string) {
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
		return w, errs
	}
	w = Wave{Name: keys.Name, Soak: keys.Soak, MaxFailures: keys.MaxFailures}
	if !waveName.MatchString(w.Name) {
		refuse(n.Get("name"), ".name", "a wave needs a name of letters, digits, '.', '_' and '-', 32 at most")
	}
	if w.Soak < 0 || w.Soak > MaxSoak {
		refuse(n.Get("soak"), ".soak", "must be between 0 and 7d")
	}
	if w.MaxFailures < 0 {
		refuse(n.Get("max_failures"), ".max_failures", "must be 0 or more")
	}
	var ok bool
	if w.Peels, ok = readShare(keys.Peels); !ok {
		refuse(keys.Peels, ".peels", "must be a number of peels from 1, or a share like 5%")
	}
	return w, errs
}

// readShare reads a number or a percentage; n may be nil.
func readShare(n *strictyaml.Node) (Share, bool) {
	if n == nil {
		return Share{}, false
	}
	switch v := n.Value.(type) {
	case int64:
		return Share{N: int(v)}, v >= 1 && v <= 1_000_000
	case string:
		if !percents.MatchString(v) {
			return Share{}, false
		}
		number, err := strconv.Atoi(strings.TrimRight(v, " %"))
		return Share{N: number, Percent: true}, err == nil
	}
	return Share{}, false
}
