package schedule

import (
	"fmt"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// foreignFields maps fields of other schedulers to the advice what to write instead.
var foreignFields = map[string]string{
	"id":                "leave it out: an entry's name is its key below schedule",
	"name":              "leave it out: an entry's name is its key below schedule",
	"function":          "write module: the function to run, such as cmd.run",
	"fun":               "write module: the function to run, such as cmd.run",
	"job_args":          "write args: a map of the function's arguments",
	"job_kwargs":        "write args: a map of the function's arguments",
	"kwargs":            "write args: a map of the function's arguments",
	"returner":          "write return_job: true, and masters keep each run as a job",
	"cron_expr":         "write cron",
	"run_once":          "write at: an instant, or after: a delay",
	"once":              "write at: an instant, or after: a delay",
	"start":             "write not_before",
	"end":               "write until",
	"skip_during_range": "write blackout",
	"fail_if":           "it is an argument: write module: prompt.run, and prompt and fail_if below args",
	"context":           "it is an argument: write module: prompt.run, and prompt and context below args",
}

// foreignUnits maps the interval fields of Salt to units.
var foreignUnits = map[string]string{"seconds": "s", "minutes": "m", "hours": "h", "days": "d", "weeks": "w"}

// foreign returns what to write instead of a field of another scheduler, or "".
func foreign(pair strictyaml.Pair) string {
	if unit, ok := foreignUnits[pair.Key]; ok {
		n, isNumber := pair.Value.Value.(int64)
		if !isNumber || n <= 0 {
			n = 5
		}
		return fmt.Sprintf("write interval: %d%s", n, unit)
	}
	return foreignFields[pair.Key]
}
