package api

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// pauseAfter is how many errors in a row pause an entry that a request makes, unless it says otherwise.
const pauseAfter = 10

// namedBy is how many characters of a prompt make the name of an entry that has none.
const namedBy = 40

// NewScheduleAdd returns the request for an entry from the fields of a request of the REST API or the command line.
// These are the fields of an entry, and beside them
//
//   - name and target,
//   - function with args, or prompt with model and opts,
//   - every, a duration or a number of milliseconds,
//   - at, an instant, or milliseconds since the Unix epoch,
//   - schedule, the timing in English.
//
// Exactly one timing is required. NewAdd changes fields.
func NewScheduleAdd(fields map[string]any) (q ScheduleAddRequest, err error) {
	q = ScheduleAddRequest{Name: take(fields, "name"), Target: take(fields, "target"), Fields: fields}
	function, prompt := take(fields, "function"), fields["prompt"]
	switch {
	case function != "" && fields["module"] != nil:
		return q, errors.New("function and module are two names of one field: give one of them")
	case function != "":
		fields["module"] = function
	case prompt == nil || prompt == "":
		delete(fields, "prompt")
		if fields["module"] == nil {
			return q, errors.New("prompt is missing: name a prompt, or a function with args")
		}
	}
	if opts, ok := fields["opts"].(map[string]any); ok && len(opts) == 0 {
		delete(fields, "opts")
	}
	if q.Name == "" {
		q.Name = function
		if text, ok := prompt.(string); ok && text != "" {
			q.Name = text
		}
		q.Name = string([]rune(q.Name)[:min(namedBy, len([]rune(q.Name)))])
	}
	if err := timing(fields); err != nil {
		return q, err
	}
	if fields["delete_after_run"] == true && fields["at"] == nil {
		return q, errors.New("delete_after_run is for a schedule with at")
	}
	if fields["pause_after_errors"] == nil && fields["breaker"] == nil {
		fields["pause_after_errors"] = int64(pauseAfter)
	}
	if fields["return_job"] == nil {
		fields["return_job"] = true
	}
	return q, nil
}

// take removes a field and returns its text, empty if it has none.
func take(fields map[string]any, key string) string {
	text, _ := fields[key].(string)
	delete(fields, key)
	return text
}

// timing turns the timing of a request into the timing of an entry.
func timing(fields map[string]any) error {
	named := 0
	for _, key := range []string{"cron", "every", "interval", "at", "schedule", "when", "after"} {
		if fields[key] != nil {
			named++
		}
	}
	if named != 1 {
		return fmt.Errorf("%d timings: a schedule has exactly one of cron, every, at and schedule", named)
	}
	switch every := fields["every"].(type) {
	case nil:
	case int64:
		if every < 1 || every > int64(10*365*24*time.Hour/time.Millisecond) {
			return fmt.Errorf("every: %d ms is not a time of 1 ms to 10 years", every)
		}
		fields["interval"] = strictyaml.FormatDuration(time.Duration(every) * time.Millisecond)
		delete(fields, "every")
	case string:
		fields["interval"] = every
		delete(fields, "every")
	default:
		return errors.New("every is a number of milliseconds, or a duration such as 5m")
	}
	if at, ok := fields["at"].(int64); ok {
		if at < 1e11 || at > 253_402_300_799_999 { // the end of the year 9999
			return fmt.Errorf("at: %d is not a time in milliseconds since the Unix epoch", at)
		}
		fields["at"] = time.UnixMilli(at).UTC().Format(time.RFC3339)
	}
	if text, ok := fields["schedule"]; ok {
		delete(fields, "schedule")
		fields["when"] = text
	}
	return nil
}
