package notify

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/private"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	outputLines = 10
	outputLine  = 200      // bytes
	outputRead  = 64 << 10 // bytes at the end of an output in which secrets are looked for
)

// colours are the sequences with which programs colour what they print, and move the cursor.
var colours = regexp.MustCompile("\x1b\\[[0-9;:?]*[ -/]*[@-~]")

// An Output is the end of what a failed run printed.
type Output struct {
	Peel  target.PeelID
	Ended time.Time
	Lines []string // empty: it printed nothing, or that is not known
	IsCut bool     // it printed more after them, which was not kept
}

// OutputOf returns the last lines of the data that a run returned: the output of a command, or a text. Secrets are
// hidden, colours are left out, and other control characters are shown as \x07. isCut: the data is only the beginning.
func OutputOf(data any) (last []string, isCut bool) {
	if command, ok := data.(map[string]any); ok {
		data = textOfData(command["stdout"]) + "\n" + textOfData(command["stderr"])
		isCut = command["stdout_truncated"] == true || command["stderr_truncated"] == true
	}
	text := textOfData(data)
	text = strings.ToValidUTF8(text[max(0, len(text)-outputRead):], "\uFFFD")
	text = colours.ReplaceAllString(text, "") // which could part the name of a secret from its value
	lines := slices.DeleteFunc(strings.Split(private.Hide(text), "\n"), func(line string) bool {
		return strings.TrimSpace(line) == ""
	})
	lines = slices.Clone(lines[max(0, len(lines)-outputLines):])
	for i, line := range lines {
		lines[i] = Clean(outbound.Line(visible(line), outputLine))
	}
	return lines, isCut
}

func textOfData(data any) string {
	switch v := data.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// visible returns a line with its control characters, and those that change the direction of writing, as text.
func visible(line string) string {
	line = strings.ReplaceAll(strings.TrimRight(line, " \t\r"), "\t", " ")
	var b strings.Builder
	for _, r := range line {
		switch {
		case !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) && r != '\u2028' && r != '\u2029':
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// HasOutput reports whether a run failed whose output belongs to the message.
func (m *AlertMessage) HasOutput() bool {
	isOpen := m.Phase == AlertBegan || m.Phase == AlertGrew || m.Phase == AlertLasts
	return isOpen && slices.Contains(m.Troubles, verdict.Failed) && len(m.Names) > 0
}

// outputLines returns the output as lines, each with a mark: an output cannot pretend to be other lines of the message.
func (m *AlertMessage) outputLines() (lines []string) {
	if len(m.Output.Lines) == 0 {
		return nil
	}
	what := "its output"
	if m.Output.IsCut {
		what = "what was kept of its output, which was longer,"
	}
	head := fmt.Sprintf("the end of %s on %s, at %s:", what, m.Output.Peel, alertTimestamp(m.Output.Ended))
	for _, line := range append([]string{head}, m.Output.Lines...) {
		if len(lines) > 0 {
			line = "| " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// Command returns the command that says more; empty if there is none.
func (m *AlertMessage) Command() string {
	ofEntry := !slices.ContainsFunc(m.Troubles, func(t verdict.Kind) bool { return string(t) == m.Subject })
	switch {
	case m.Phase == AlertTest || m.Phase == AlertEnded || len(m.Troubles) == 0:
		return ""
	case ofEntry && len(m.Names) > 0:
		peel := m.Names[0]
		if len(m.Output.Lines) > 0 {
			peel = m.Output.Peel
		}
		return "zester why " + shell.Word(string(peel)) + " " + shell.Word(m.Subject)
	}
	return "zester now"
}
