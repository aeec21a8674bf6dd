package swarm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm"
)

// runs makes a report of each reading. A bare bus of 2 makes ratios of the readings.
func runs(f swarm.Figure, readings ...float64) (all []*swarm.Report) {
	for _, value := range readings {
		f.Value, f.Ratio = value, value/2
		if f.Unit == "KiB" {
			f.Ratio = 0
		}
		all = append(all, &swarm.Report{Figures: []swarm.Figure{f}})
	}
	return all
}

func TestAFigureIsWorseBeyondItsNoise(t *testing.T) {
	seconds, rate := swarm.Figure{Name: "restart", Unit: "s"}, swarm.Figure{Name: "results", Unit: "1/s"}
	memory, waiting := swarm.Figure{Name: "memory", Unit: "KiB"}, swarm.Figure{Name: swarm.Waiting, Unit: "s"}
	for name, c := range map[string]struct {
		figure      swarm.Figure
		before, now []float64
		worse       bool
	}{
		"all readings are worse":      {seconds, []float64{2, 2.1, 2.2}, []float64{2.3, 2.4, 2.5}, true},
		"one reading is not":          {seconds, []float64{2, 2.1, 2.2}, []float64{2.15, 2.4, 2.5}, false},
		"less than 5 %":               {seconds, []float64{2, 2, 2}, []float64{2.08, 2.08, 2.08}, false},
		"better":                      {seconds, []float64{2, 2.1, 2.2}, []float64{1, 1, 1}, false},
		"a rate that rises":           {rate, []float64{10, 11, 12}, []float64{20, 21, 22}, false},
		"a rate that falls":           {rate, []float64{20, 21, 22}, []float64{10, 11, 12}, true},
		"less than 5 % of a rate":     {rate, []float64{20, 20, 20}, []float64{19.5, 19.5, 19.5}, false},
		"a figure without a bare bus": {memory, []float64{100, 101, 102}, []float64{120, 121, 122}, true},
		"none before":                 {memory, []float64{0, 0, 0}, []float64{1, 1, 1}, true},
		"none":                        {memory, []float64{0, 0, 0}, []float64{0, 0, 0}, false},
		"a goal of at least":          {waiting, []float64{2, 2, 2}, []float64{1, 1, 1}, true},
	} {
		all := swarm.Compare(runs(c.figure, c.before...), runs(c.figure, c.now...))
		if len(all) != 1 || all[0].Worse != c.worse {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

func TestOnlyFiguresOfAllRunsAreCompared(t *testing.T) {
	before := runs(swarm.Figure{Name: "restart", Unit: "s"}, 2, 2, 2)
	now := slices.Concat(runs(swarm.Figure{Name: "restart", Unit: "s"}, 4, 4), runs(swarm.Figure{Name: "other", Unit: "s"}, 4))
	if all := swarm.Compare(before, now); all != nil {
		t.Errorf("%+v", all)
	}
	if all := swarm.Compare(before, nil); all != nil {
		t.Errorf("%+v", all)
	}
}

func TestTheTableMarksWhatIsWorse(t *testing.T) {
	var b strings.Builder
	err := swarm.WriteChanges(&b, []swarm.Change{{"restart", 1, 2, 2, true}, {"commit", 1, 1.5, 1.5, false}})
	lines := strings.Split(b.String(), "\n")
	if err != nil || !strings.HasSuffix(lines[1], "2.00  worse") || !strings.HasSuffix(lines[2], "1.50") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
