package swarm

import (
	"slices"
	"time"
)

// A cost is what the rounds of one measurement took.
type cost struct {
	seconds float64 // the median round
	cpu     float64 // ms of processor time for one peel, user and system, of this process: bus, master, client
	peelCPU float64 // the same of the worker processes
}

// rounds calls round Options.Rounds times, for n peels each. It returns its time and the processor time of this
// process.
func (r *run) rounds(n int, round func(i int) (took, used time.Duration, err error)) (cost, error) {
	var seconds []float64
	var total time.Duration
	before := r.workersCPU()
	for i := range r.o.Rounds {
		took, used, err := round(i)
		if err != nil {
			return cost{}, err
		}
		seconds, total = append(seconds, took.Seconds()), total+used
	}
	perPeel := 1000 / float64(n*r.o.Rounds)
	return cost{median(seconds), total.Seconds() * perPeel, (r.workersCPU() - before).Seconds() * perPeel}, nil
}

// stopwatch returns a function that returns the time since, and the processor time of this process since.
func stopwatch() func() (took, used time.Duration) {
	began, before := time.Now(), CPUTime()
	return func() (took, used time.Duration) { return time.Since(began), CPUTime() - before }
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
