package swarm

import (
	"slices"
	"time"
)

// An effort is what the rounds of one measurement took.
type effort struct {
	seconds float64 // the median round
	cpu     float64 // ms of the processors for one peel, user and system, used by this process: the bus, the master, the client
	peel    float64 // the same, used by the processes of the peels
}

// rounds calls round as often as Options.Rounds says. Each round concerns n peels, and returns how long it took and what this
// process used of the processors meanwhile.
func (r *run) rounds(n int, round func(i int) (took, used time.Duration, err error)) (effort, error) {
	var seconds []float64
	var total time.Duration
	peels := r.timeOfPeels()
	for i := range r.o.Rounds {
		took, used, err := round(i)
		if err != nil {
			return effort{}, err
		}
		seconds, total = append(seconds, took.Seconds()), total+used
	}
	each := 1000 / float64(n*r.o.Rounds)
	return effort{median(seconds), total.Seconds() * each, (r.timeOfPeels() - peels).Seconds() * each}, nil
}

// stopwatch returns a function that returns the time since, and the processor time of this process since.
func stopwatch() func() (took, used time.Duration) {
	began, before := time.Now(), cpuTime()
	return func() (took, used time.Duration) { return time.Since(began), cpuTime() - before }
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
