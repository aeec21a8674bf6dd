package page

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// A suspicion is the commit that an alert followed or is about; Word is empty where it is about the commit.
type suspicion struct {
	commit string
	word   cause.Word
}

// suspicionOf finds the commit of an alert among what is wrong now; its commit is empty if none explains it.
func suspicionOf(a *api.Alert, problems []api.Problem) suspicion {
	for i := range problems {
		p := &problems[i]
		subject := cmp.Or(p.Entry, string(p.Class))
		switch {
		case subject != a.Subject || !slices.Contains(a.Troubles, p.Class):
		case p.Commit != "":
			return suspicion{commit: string(p.Commit)}
		case hasCommit(p.Finding):
			return suspicion{string(p.Finding.Commit), p.Finding.Word}
		}
	}
	return suspicion{}
}

// isOfEntry reports whether the subject of an alert is an entry.
func isOfEntry(a *api.Alert) bool { return !slices.Contains(a.Troubles, verdict.Kind(a.Subject)) }

// alertHref leads to what an alert is about.
func alertHref(a *api.Alert) string {
	if isOfEntry(a) {
		return entryHref(a.Subject)
	}
	return problemHref(&api.Problem{Class: verdict.Kind(a.Subject)})
}

// alertPeelHref leads to one peel of an alert.
func alertPeelHref(a *api.Alert, peel string) string {
	if isOfEntry(a) {
		return whyHref(a.Subject, peel)
	}
	return "/peels/" + url.PathEscape(peel)
}
