package console

import (
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// repeatPages are forms of a new job that are filled in from what was found. They are sent to /jobs/new.
var repeatPages = []route{
	{
		path: "/jobs/{jid}/retry", name: "job-new", nav: "jobs", noun: "job", verb: "dispatch",
		form: true, show: retryJob,
	},
	{
		path: "/states/apply", name: "job-new", nav: "states", noun: "job", verb: "dispatch",
		form: true, show: applyStates,
	},
}

// maxNamed is how many peels a form names. A longer list makes the form too large.
const maxNamed = 1000

// named returns the expression that selects these peels.
func named(peels []target.PeelID, what string) (string, error) {
	if len(peels) == 0 {
		return "", invalid("no peel %s", what)
	}
	if len(peels) > maxNamed {
		const tooMany = "%s are too many for a form, which names at most %s: run it with a target instead"
		return "", invalid(tooMany, page.Plural(len(peels), "peel"), page.Number(maxNamed))
	}
	words := make([]string, len(peels))
	for i, id := range peels {
		words[i] = string(id)
	}
	return "L@" + strings.Join(words, ","), nil
}

// retryJob fills in the function and arguments of a job, and the peels on which it did not succeed.
func retryJob(v *visit) (*shown, error) {
	jid, err := wire.ParseJID(v.r.PathValue("jid"))
	if err != nil {
		return nil, &api.Error{Code: api.CodeNotFound, Msg: err.Error(), Err: err}
	}
	j, err := api.JobShow.Ask(v.r.Context(), v.ask, api.JobRequest{JID: jid})
	if err != nil {
		return nil, err
	}
	if !j.Status.Final() {
		return nil, &api.Error{Code: api.CodeConflict, Msg: "the job still runs: wait for its end, or stop it"}
	}
	peels, err := view.Unsuccessful(v.r.Context(), v.ask, jid)
	if err != nil {
		return nil, err
	}
	d := dispatch{function: j.Function, args: strings.TrimSpace(j.StateID + "\n" + page.ArgLines(j.Args))}
	d.reason = "again what did not succeed in " + string(jid)
	if d.target, err = named(peels, "has failed or not returned"); err != nil {
		return nil, err
	}
	return newJob(v, d, nil)
}

// applyStates fills in a run on the hosts that have a result of a state: of the settings file that has the state, or
// of all states where that file is not known or not the same on all hosts. With test=true it says what differs alone.
func applyStates(v *visit) (*shown, error) {
	r := status.StateResult{State: v.query("state"), Result: v.query("result"), Cause: v.query("cause")}
	peels, err := view.StatePeels(v.r.Context(), v.ask, r)
	if err != nil {
		return nil, err
	}
	d := dispatch{function: "state.highstate", note: "all states of these hosts run"}
	test := v.query("test") == "true"
	if r.State != "" {
		d.reason = "put back " + r.State
		if file, ref := fileOf(v, r.State, peels); ref != "" {
			d.function, d.args = "state.apply", ref
			d.note = "the states of " + file + " run, with what they require, and no others. " +
				"The list of states shows the result after the next run of all states."
		}
	}
	if test {
		d.args = strings.TrimSpace(d.args + "\ntest=true")
		d.note, d.reason = "nothing is changed: the returns say what differs", "see what differs"
	}
	if d.target, err = named(peels, "differs so from Git now"); err != nil {
		return nil, err
	}
	return newJob(v, d, nil)
}

// askedPeels is how many hosts are asked for the file of a state.
const askedPeels = 10

// fileOf returns the settings file that gives a state to peels, and its reference in arguments of functions. Both are
// empty if the file is not known, or if the first peels have the state from several files.
func fileOf(v *visit, state string, peels []target.PeelID) (file, ref string) {
	for _, id := range peels[:min(askedPeels, len(peels))] {
		q := api.BlameRequest{Peel: id, Entry: settings.StateOrigin + state}
		origin := api.EntryShow.Extra(v.r.Context(), v.ask, q).Value
		if origin == nil || file != "" && origin.File != file {
			return "", ""
		}
		file = origin.File
	}
	name, below := strings.CutPrefix(file, "settings/")
	name, isYAML := strings.CutSuffix(name, ".yaml")
	if !below || !isYAML {
		return "", ""
	}
	return file, strings.ReplaceAll(name, "/", ".")
}
