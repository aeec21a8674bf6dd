package audit

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ActionCall is the action of an entry that records a [Call].
const ActionCall = "agent.call"

// Bounds of a [Call] in bytes.
const (
	MaxAgent    = 100
	MaxTool     = 64
	MaxCallArgs = 1 << 10
)

// A Call is a request to zester.api.agent.record: before an assistant's call of a tool is carried out, it is recorded
// under the name of the person or token in whose name the assistant works. All of it is what the program of the
// assistant says.
type Call struct {
	Tool  string `json:"tool"`
	Args  string `json:"args,omitempty"`
	Agent string `json:"agent"`
	// Refused says why the call is not carried out.
	Refused string `json:"refused,omitempty"`
}

// Entry checks a call and returns the entry that records it.
func (c *Call) Entry() (Entry, error) {
	for _, text := range []struct {
		name, value string
		most        int
	}{{"tool", c.Tool, MaxTool}, {"agent", c.Agent, MaxAgent}} {
		if text.value == "" || len(text.value) > text.most || !utf8.ValidString(text.value) ||
			strings.ContainsFunc(text.value, hidden) {
			return Entry{}, fmt.Errorf("%s is one line of 1 to %d bytes", text.name, text.most)
		}
	}
	if len(c.Args) > MaxCallArgs || len(c.Refused) > MaxCallArgs {
		return Entry{}, fmt.Errorf("the arguments and the reason have at most %d bytes", MaxCallArgs)
	}
	e := Entry{Action: ActionCall, Target: c.Tool, Args: c.Args, Agent: c.Agent, Result: Asked}
	if c.Refused != "" {
		e = e.Ended(errors.New(c.Refused), true)
	}
	return e, nil
}

// AgentName makes a name for [Call.Agent] of what a program says about itself.
func AgentName(name, version string) string { return oneLine(name+" "+version, MaxAgent) }

// ToolName makes a name for [Call.Tool] of what an assistant calls, which need not be the name of a tool.
func ToolName(name string) string { return oneLine(name, MaxTool) }

// oneLine returns a text on one line, without characters that do not show, of at most the given number of bytes. It is
// "unknown" if nothing is left.
func oneLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || hidden(r) {
			return -1
		}
		return r
	}, text)
	if text = Bounded(strings.TrimSpace(text), most); text == "" {
		return "unknown"
	}
	return text
}

// hidden reports whether a character breaks a line, does not show, or changes the direction of text.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
