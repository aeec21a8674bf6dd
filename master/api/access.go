package api

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/spelling"
)

// An AccessRequest asks whether a person may send a request now.
type AccessRequest struct {
	Name string `json:"name"` // of the person
	Verb string `json:"verb"` // noun and verb of the request as in the audit log, such as job.cancel
	// Target and Function describe a job. The verb job.dispatch needs both; no other verb takes them.
	Target   string `json:"target,omitempty"`
	Function string `json:"function,omitempty"`
	// StateID and Args are the arguments of the function. Without both, the question is about a call without any.
	StateID string         `json:"state_id,omitempty"`
	Args    map[string]any `json:"args,omitempty"`
	// Path is a file of the config repo, for the verbs of [access.OfFile]. Without it, the question is about any file.
	Path string `json:"path,omitempty"`
	// After is the name of the person after whom a page of a list begins.
	After string `json:"after,omitempty"`
}

// maxPath bounds the path of a question in bytes.
const maxPath = 4 << 10

// Dispatches reports whether the request is about the dispatch of a job.
func (q *AccessRequest) Dispatches() bool { return q.Verb == JobDispatch.Noun+"."+JobDispatch.Verb }

// Check returns an error if the request is not valid.
func (q *AccessRequest) Check() error {
	if !slices.Contains(Verbs(), q.Verb) {
		return fmt.Errorf("there is no verb %.100q: the nearest are %s", q.Verb, strings.Join(nearest(q.Verb), ", "))
	}
	if q.Path != "" && (!access.OfFile(access.Verb(q.Verb)) || !fs.ValidPath(q.Path) || len(q.Path) > maxPath) {
		return fmt.Errorf("%s takes no file %.100q: the verbs that change files of the config repo do, "+
			"with a path such as settings/web/cron.yaml", q.Verb, q.Path)
	}
	if !q.Dispatches() {
		if q.Target != "" || q.Function != "" || q.StateID != "" || q.Args != nil {
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
	if data, err := canon.Marshal(q.Args); err != nil || len(data) > HoldMaxData {
		return fmt.Errorf("the arguments take more than %d bytes, or cannot be encoded", HoldMaxData)
	}
	return nil
}

// nearest returns the three verbs whose spelling is most similar to a word.
func nearest(word string) []string {
	const few = 3
	distance := map[string]int{}
	all := Verbs()
	for _, v := range all {
		distance[v] = math.MaxInt
		if d, ok := spelling.Distance(word, v, len(word)+len(v)); ok {
			distance[v] = d
		}
	}
	sorting.Stable(all, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
	return all[:few]
}

// Access is what a person may do, and why.
type Access struct {
	Name    string      `json:"name"`
	Role    grants.Role `json:"role"`
	Allowed bool        `json:"allowed"`
	Rule    string      `json:"rule"`            // the rule that decides, in words
	Peels   int         `json:"peels,omitempty"` // of a job: how many peels its target selects now
	// Second is the rule by which it waits for a second person; empty: it does not.
	Second string `json:"second,omitempty"`
}

// AccessPage has the people who may send a request now, by name, as many as fit into a message.
type AccessPage struct {
	People []Access `json:"people"`
	Peels  int      `json:"peels,omitempty"` // of a job: how many peels its target selects now
	Next   string   `json:"next,omitempty"`  // what the next page comes after; empty on the last
}
