package api

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
)

// An AccessRequest asks whether a person may send a request now.
type AccessRequest struct {
	Name string `json:"name"` // of the person
	Verb string `json:"verb"` // noun and verb of the request as in the audit log, such as job.cancel
	// Target and Function describe a job. The verb job.dispatch needs both; no other verb takes them.
	Target   string `json:"target,omitempty"`
	Function string `json:"function,omitempty"`
}

// Dispatches reports whether the request is about the dispatch of a job.
func (q *AccessRequest) Dispatches() bool { return q.Verb == JobDispatch.Noun+"."+JobDispatch.Verb }

// Check returns an error if the request is not valid.
func (q *AccessRequest) Check() error {
	noun, verb, ok := strings.Cut(q.Verb, ".")
	if !ok || grants.CheckName(grants.RoleOperator, noun) != nil || grants.CheckName(grants.RoleOperator, verb) != nil {
		return fmt.Errorf("%.100q is not a verb: want a noun and a verb such as job.cancel or sync.approve", q.Verb)
	}
	if !q.Dispatches() {
		if q.Target != "" || q.Function != "" {
			return fmt.Errorf("%s takes no target and no function: only job.dispatch does", q.Verb)
		}
		return nil
	}
	if q.Target == "" || q.Function == "" {
		return errors.New("job.dispatch needs a target and a function, such as 'web-*' test.ping")
	}
	if _, known := catalogue.Lookup(q.Function); !known {
		return fmt.Errorf("peels have no function %.100q: zester functions lists them", q.Function)
	}
	return nil
}

// Access is what a person may do, and why.
type Access struct {
	Name    string      `json:"name"`
	Role    grants.Role `json:"role"`
	Allowed bool        `json:"allowed"`
	Rule    string      `json:"rule"`            // the role or limit that decides, in words
	Peels   int         `json:"peels,omitempty"` // of a job: how many peels its target selects now
}
