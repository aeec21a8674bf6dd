// Package simulate predicts what the schedules of a fleet will do: it executes them in memory, months in seconds. Call
// [Run] for the peels of a fleet, or [NewHost] for one.
//
// The fires are those of the peels: each peel has the code of [scheduler.Scheduler], by [scheduler.Simulation], with
// its calendars, windows, limits and zones. Only what the repo does not know is assumed: how long runs take, that they
// succeed unless their timeout ends them, and that every peel starts at the beginning of the simulation without a
// history. Random splay is drawn from a generator with a fixed seed for each peel, so that two simulations of the same
// fleet are equal.
//
// A peel that is away is down, as in a power cut: runs in flight are interrupted, and fires are missed or made up when
// it is back. A master or bus that is down changes nothing here, because peels run their schedules without them.
//
// Peels with the same schedule do the same at the same time if no entry has a splay: one of them is simulated for all.
//
// Known gaps: commands of operators, changes of the schedule and entries of peel.yaml are not simulated, and neither is
// the load of a host, which makes runs slower. All hosts are in one zone, which entries without a zone use.
package simulate
