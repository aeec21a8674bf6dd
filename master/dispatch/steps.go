package dispatch

// A step is a point in the life of a job at which a master may stop.
type step string

// The steps, in their order.
const (
	stepAllowed      step = "the request is allowed"
	stepCreated      step = "the claim is recorded"
	stepAnnounced    step = "the dispatch event is recorded"
	stepRunning      step = "the record says running"
	stepHalfSent     step = "half of the requests are sent"
	stepSent         step = "the requests are sent"
	stepBatchWritten step = "the record says how far the batch is"
	stepReturned     step = "nothing more is waited for"
	stepEnded        step = "the record is final"
	stepArchived     step = "the record is among the ended jobs"
	stepTold         step = "the status event is recorded"
	stepRemoved      step = "the job is removed from the live jobs"
)

// at reports to a test that the dispatcher has reached a step.
func (d *Dispatcher) at(s step) {
	if d.reached != nil {
		d.reached(s)
	}
}
