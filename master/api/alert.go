package api

import (
	"path"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds of a [Silence].
const (
	MaxSilence       = 30 * 24 * time.Hour
	MaxSilenceReason = 300 // bytes
	MaxSilenceMatch  = 300 // bytes
)

// An Alert is one alert: troubles of one entry, of peels or of revisions, by one rule.
type Alert struct {
	ID       string          `json:"id"`      // RULE/SUBJECT
	Rule     string          `json:"rule"`    // its name in zester.yaml
	Subject  string          `json:"subject"` // the entry; for whole peels and revisions the trouble
	State    string          `json:"state"`   // waiting (for the time under for), firing or ended
	Troubles []verdict.Kind  `json:"troubles,omitempty"`
	Peels    int             `json:"peels"`           // that are concerned now; 0 for revisions
	Names    []target.PeelID `json:"names,omitempty"` // the first of them, at most 5
	Text     string          `json:"text,omitempty"`  // the reason or error of one of them
	Since    time.Time       `json:"since"`           // when its condition began to hold
	Began    time.Time       `json:"began,omitzero"`  // when the alert began; zero while it waits
	Ended    time.Time       `json:"ended,omitzero"`  // zero while it lasts
	// Silence is the ID of the silence that keeps it from being sent; empty if none does.
	Silence string `json:"silence,omitempty"`
	// Waits are the receivers that have not got its newest state yet.
	Waits []string `json:"waits,omitempty"`
}

// The values of Alert.State.
const (
	AlertWaiting = "waiting"
	AlertFiring  = "firing"
	AlertEnded   = "ended"
)

// AlertsRequest requests the alerts.
type AlertsRequest struct {
	Ended bool `json:"ended,omitempty" query:"ended" doc:"Also alerts that ended within a day."`
}

// AlertsAnswer is all alerts, by ID, and all silences, by their end.
type AlertsAnswer struct {
	Alerts   []Alert   `json:"alerts"`
	Silences []Silence `json:"silences,omitempty"`
	// Stale says why the verdicts about schedules are not known now; alerts about them neither begin nor end meanwhile.
	Stale string `json:"stale,omitempty"`
	// Dropped is the number of troubles of peels without an alert of their own: there are too many about one peel, or
	// in all. Alerts with the subject too_many_alerts name the peels.
	Dropped int `json:"dropped,omitempty"`
}

// A Silence keeps alerts from being sent until it ends.
type Silence struct {
	ID string `json:"id"`
	// Match is a glob that a rule, a subject or RULE/SUBJECT matches; after "peel:" it is of peels.
	Match  string    `json:"match"`
	Until  time.Time `json:"until"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"` // when it began
}

// SilenceMatches reports whether the glob of a silence matches the ID of an alert, its rule or its subject.
func SilenceMatches(match, id, rule, subject string) bool {
	for _, text := range []string{id, rule, subject} {
		if ok, _ := path.Match(match, text); ok {
			return true
		}
	}
	return false
}

// SilenceRequest requests a silence.
type SilenceRequest struct {
	Match  string        `json:"match"`
	For    time.Duration `json:"for"`
	Reason string        `json:"reason"`
}

// SilenceID names a silence.
type SilenceID struct {
	ID string `json:"id" path:"id" maxLength:"64" doc:"ID of a silence."`
}

// ReceiverName names a receiver.
type ReceiverName struct {
	Name string `json:"name" path:"name" maxLength:"64" doc:"Name of a receiver in master.yaml."`
}

// A Receiver is the state of one receiver of alerts on the master that leads them.
type Receiver struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// alerts whose newest state, or runs that it has not been told of yet
	Waiting  int       `json:"waiting"`
	Sent     uint64    `json:"sent"`                 // messages or pings since the master leads
	Refused  uint64    `json:"refused,omitempty"`    // messages that it refused for good, as its answer said
	Failures int       `json:"failures,omitempty"`   // in a row
	Error    string    `json:"error,omitempty"`      // of the last attempt, or why some entries are not pinged
	Success  time.Time `json:"success,omitzero"`     // end of the last attempt that succeeded
	Again    time.Time `json:"again,omitzero"`       // when the next attempt is made
	Unknown  []string  `json:"unknown_in,omitempty"` // rules that name it although it gets no alerts
}

// AlertStatus says how alerts are sent.
type AlertStatus struct {
	Owner     string     `json:"owner"` // the master that leads the alerts
	Since     time.Time  `json:"since"` // when it began to lead
	Rules     int        `json:"rules"`
	Default   bool       `json:"default,omitempty"` // zester.yaml has no rules, and the default ones apply
	Firing    int        `json:"firing"`
	Stale     string     `json:"stale,omitempty"`    // as in [AlertsAnswer]
	Revision  string     `json:"revision,omitempty"` // why the state of the reconciler is not known; empty if it is
	Storage   string     `json:"storage,omitempty"`  // why the alerts could not be stored; nothing is sent then
	Alive     *Alive     `json:"alive,omitempty"`    // nil if master.yaml names no address for it
	Receivers []Receiver `json:"receivers"`
}

// Alive is the state of the dead man's switch: an address that is called each minute while all is well.
type Alive struct {
	Called time.Time `json:"called,omitzero"` // when a call last succeeded
	Held   string    `json:"held,omitempty"`  // why the address is not called now
	Error  string    `json:"error,omitempty"` // of the last call
}
