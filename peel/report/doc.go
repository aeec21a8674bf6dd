// Package report has what a peel sends unasked, and cuts it to fit into a message: [NewReporter] reports on the
// schedule, [StateRunOf] on a run of all states, and [FitReturn] encodes the return of a job.
package report
