package plan

import (
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// rules hold the content of zester.yaml and the top files.
type rules struct {
	sources []*File
	top     *top.File // from the files that can be read
	groups  map[string][]string
	waves   []policy.Wave
	freezes []policy.Freeze
	limits  policy.Limits
	alerts  []policy.Alert
	isolate bool // on_error: isolate

	calendars schedule.Calendars
	warnings  []Warning
	reason    Reason
	errs      strictyaml.Errors
}

// fleetNames are labels in a top file that look like the names of separate fleets.
var fleetNames = []string{
	"dev", "develop", "development", "int", "integration", "live", "pre", "preprod", "prod", "production", "qa",
	"stage", "staging",
	"test", "testing", "uat",
}

// warnOfLabels warns of labels that look as if they separated fleets.
func (r *rules) warnOfLabels(doc *strictyaml.Node) {
	for _, label := range doc.Map {
		if slices.Contains(fleetNames, strings.ToLower(label.Key)) {
			r.warnings = append(r.warnings,
				warningf(label.KeyPos,
					"%s is only a label: its targets select from all peels of this master, as those under base do; "+
						"a repo serves several fleets by branch or by folder, "+
						"with a master for each (zester-master --branch, --path)",
					label.Key))
		}
	}
}

// readRules reads zester.yaml, the first of sources and nil if there is none, and the top files. If zester.yaml cannot
// be read, the rules are not read either, as they may use its node groups.
func readRules(sources []*File) rules {
	r := rules{sources: sources, top: &top.File{}, reason: Invalid, limits: policy.DefaultLimits}
	docs := r.documents()
	if sources[0] != nil && docs[0] == nil {
		return r
	}
	policy, err := policy.ParsePolicy(docs[0])
	if err != nil {
		r.fail(Invalid, AsErrors(PolicyFile, err)...)
		return r
	}
	if policy.Calendars != nil {
		if r.calendars, err = schedule.ParseCalendars(policy.Calendars); err != nil {
			r.fail(Invalid, AsErrors(PolicyFile, err)...)
		}
	}
	var readable []*strictyaml.Node
	for _, doc := range docs[1:] {
		if doc != nil {
			r.warnOfLabels(doc)
			readable = append(readable, doc)
		}
	}
	file, err := top.Parse(readable, policy.Groups)
	if err != nil {
		r.fail(Invalid, AsErrors(TopFile, err)...)
		return r
	}
	r.top, r.groups, r.isolate = file, policy.GroupWords, policy.Isolate
	r.waves = policy.Waves
	r.freezes = policy.Freezes
	r.limits = policy.Limits
	r.alerts = policy.Alerts
	return r
}

// documents returns the documents of the sources, nil for a file that does not exist or cannot be read.
func (r *rules) documents() (docs []*strictyaml.Node) {
	for _, f := range r.sources {
		if f == nil {
			docs = append(docs, nil)
			continue
		}
		docs = append(docs, f.Node)
		switch {
		case f.Oddity != "" && f.Path == TopFile:
			r.fail(TopIsSymlink, strictyaml.Error{Pos: strictyaml.Pos{File: f.Path}, Msg: "the top file " + f.Oddity})
		case f.Oddity != "":
			r.fail(Invalid, strictyaml.Error{Pos: strictyaml.Pos{File: f.Path}, Msg: "it " + f.Oddity})
		default:
			r.fail(f.Reason, f.Errs...)
		}
	}
	return docs
}

func (r *rules) fail(reason Reason, errs ...strictyaml.Error) {
	if r.reason == Invalid && len(errs) > 0 {
		r.reason = reason
	}
	r.errs = append(r.errs, errs...)
}
