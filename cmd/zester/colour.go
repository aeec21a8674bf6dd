package main

import (
	"errors"
	"os"
	"strings"
)

// A colourMode is a value of --color.
type colourMode string

func (m *colourMode) String() string { return string(*m) }

func (m *colourMode) Type() string { return "when" }

func (m *colourMode) Set(s string) error {
	if s != "auto" && s != "always" && s != "never" {
		return errors.New("it is auto, always or never")
	}
	*m = colourMode(s)
	return nil
}

// colours reports whether states and changes are printed in colour: on a terminal, unless NO_COLOR or --color says
// otherwise.
func (a *app) colours() bool {
	if a.colour == "auto" || a.colour == "" {
		return a.columns > 0 && os.Getenv("NO_COLOR") == ""
	}
	return a.colour == "always"
}

// The codes of colours that every terminal has.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

// painted returns text in a colour, or unchanged if the colour is empty.
func painted(colour, text string) string {
	if colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// stateColours holds the colour of each state of a peel, a job, a revision, a credential or a check.
var stateColours = func() map[string]string {
	colours := map[string]string{}
	for colour, states := range map[string]string{
		green: "ok ran complete applied accepted valid yes done active clean",
		red: "failed firing missed timeout rejected broken refused revoked no rolled invalid paused_errors " +
			"paused_invalid missing unreachable CompileFailed Stalled",
		yellow: "late overran pending claimed running partial canceled warning blocked waiting paused_manual skipped " +
			"offline unknown stale expired ended superseded drifted other_settings",
	} {
		for s := range strings.FieldsSeq(states) {
			colours[s] = colour
		}
	}
	return colours
}()

// stateColour returns the colour of the first word of a cell: "applied, stale" has the colour of applied.
func stateColour(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return stateColours[strings.TrimRight(word, ",:")]
}
