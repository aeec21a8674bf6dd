package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/private"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A Kind is the kind of an event.
type Kind string

// The kinds of events about the state of a revision.
const (
	Progressing Kind = "progressing" // it goes to the fleet
	Blocked     Kind = "blocked"     // it waits for approval
	Frozen      Kind = "frozen"      // a freeze of zester.yaml holds it, or its next wave
	Rejected    Kind = "rejected"    // it does not compile, or may not be served
	Gate        Kind = "gate"        // a wave has passed, and a person has to approve the next one
	WaveFailed  Kind = "wave_failed" // it was rolled back
	Completed   Kind = "completed"   // every peel that is online runs it
	Incomplete  Kind = "incomplete"  // peels failed to apply it, or are late
	Superseded  Kind = "superseded"  // another revision replaced it
)

// The kinds of all other events.
const (
	FetchFailed   Kind = "fetch_failed" // the branch could not be read for 5 min
	Stalled       Kind = "stalled"      // no revision can be published until a person changes something
	Recovered     Kind = "recovered"    // the branch can be read again
	Pinned        Kind = "pinned"
	Unpinned      Kind = "unpinned"
	Paused        Kind = "paused"
	Resumed       Kind = "resumed"
	LeaderChanged Kind = "leader_changed"
	PeelsFailed   Kind = "peels_failed" // peels fail that ran the revision in force
)

// RevisionKinds are the kinds of events about the state of a revision.
var RevisionKinds = []Kind{Progressing, Gate, Blocked, Frozen, Rejected, WaveFailed, Completed, Incomplete, Superseded}

// otherKinds are all others.
var otherKinds = []Kind{FetchFailed, Stalled, Recovered, Pinned, Unpinned, Paused, Resumed, LeaderChanged, PeelsFailed}

// quiet are the kinds that a chat or mailbox gets only if Options.Events names them.
var quiet = []Kind{Progressing, Superseded}

// titles are the titles of events; %s is the revision.
var titles = map[Kind]string{
	Progressing:   "%s goes to the fleet",
	Blocked:       "%s waits for approval",
	Rejected:      "%s is refused",
	WaveFailed:    "%s was rolled back",
	Completed:     "%s is applied",
	Incomplete:    "%s is not applied on every peel",
	Superseded:    "%s was superseded",
	FetchFailed:   "the branch cannot be read",
	Stalled:       "no revision can be published",
	Recovered:     "the branch is read again",
	Gate:          "%s waits at a gate",
	Frozen:        "%s waits for the end of a freeze",
	Pinned:        "the fleet is pinned to %s",
	Unpinned:      "the pin has ended",
	Paused:        "new revisions are paused",
	Resumed:       "new revisions are followed again",
	LeaderChanged: "another master leads",
	PeelsFailed:   "peels fail with %s",
}

// A Revision is a commit of the branch.
type Revision struct {
	Commit  settings.Commit
	Author  string
	Subject string // the commit's first line
}

// An Event is a change to report. Its texts are for people; Send cuts them and hides credentials in them.
type Event struct {
	Kind     Kind
	Time     time.Time
	Repo     string // without credentials
	Branch   string
	Revision Revision
	Text     string   // one line: the numbers, the reason, or the error
	Details  []string // further lines
	Where    string   // path:line of the mistake
	Command  string   // the next command to type
	By       string   // the person or master
	State    forge.State
	Counts   status.Counts // of the peels that the revision is for
	Took     time.Duration // of Completed: since the revision was first read
}

const (
	maxText    = 600 // bytes of a line
	maxDetails = 12
)

// Title returns the title in one line.
func (e Event) Title() string {
	title := titles[e.Kind]
	if strings.Contains(title, "%s") {
		title = fmt.Sprintf(title, fmt.Sprintf("%.7s", outbound.Line(string(e.Revision.Commit), 40)))
	}
	return title
}

// lines returns the text below the title.
func (e Event) lines() []string {
	lines := []string{e.Text}
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, name+": "+value)
		}
	}
	lines = append(lines, e.Details...)
	add("at", e.Where)
	if c := e.Revision; c.Commit != "" {
		add("revision", strings.TrimSpace(fmt.Sprintf("%s %s", c.Commit, c.Subject)))
		add("author", c.Author)
	}
	add("by", e.By)
	add("next", e.Command)
	add("branch", strings.TrimSpace(e.Branch+" of "+e.Repo))
	return slices.DeleteFunc(lines, func(s string) bool { return s == "" })
}

// message returns the event as a text.
func (e Event) message() Text {
	return Text{Title: e.Title(), Summary: e.Text, Lines: e.lines(), Time: e.Time}
}

// A Text is a message to a chat or mailbox.
type Text struct {
	Title   string
	Summary string   // one line, which Slack shows beside the title on a screen
	Lines   []string // of the message
	Time    time.Time
	ID      string // of letters and digits, in the Message-ID of mail; if empty, a random one
}

// maxLines bounds the lines of a text.
const maxLines = 60

// bounded returns the text with each part cut to one line and without credentials.
func (m Text) bounded() Text {
	m.Title, m.Summary = Clean(m.Title), Clean(m.Summary)
	lines := make([]string, 0, len(m.Lines))
	for i, line := range m.Lines {
		if i == maxLines {
			lines = append(lines, fmt.Sprintf("and %d lines more", len(m.Lines)-i))
			break
		}
		lines = append(lines, Clean(line))
	}
	m.Lines = lines
	return m
}

// bounded returns the event with each text cut to one line and without credentials.
func (e Event) bounded() Event {
	for _, text := range []*string{&e.Text, &e.Where, &e.Command, &e.Branch, &e.Repo, &e.Revision.Subject} {
		*text = Clean(*text)
	}
	for _, name := range []*string{&e.By, &e.Revision.Author} {
		*name = Clean(*name)
	}
	var details []string
	for i, line := range e.Details {
		if i == maxDetails {
			details = append(details, fmt.Sprintf("and %d lines more", len(e.Details)-i))
			break
		}
		details = append(details, Clean(line))
	}
	e.Details = details
	return e
}

// Clean returns text as one line of at most 600 bytes with credentials hidden.
func Clean(text string) string {
	return outbound.Line(private.Hide(outbound.Line(text, 2*maxText)), maxText)
}
