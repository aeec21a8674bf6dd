package dispatch

// Steps are the points at which a test may stop a master, in their order.
var Steps = []string{
	string(stepIndexed), string(stepCreated), string(stepAnnounced), string(stepRunning), string(stepHalfSent), string(stepSent),
	string(stepReturned), string(stepEnded), string(stepTold), string(stepRemoved),
}

// StepBatch is the one that only jobs in batches come to.
const StepBatch = string(stepBatchWritten)

// OnStep has f called at each step. It must be called before Run.
func (d *Dispatcher) OnStep(f func(step string)) { d.reached = func(s step) { f(string(s)) } }
