package audit

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestCallsOfAssistants(t *testing.T) {
	for name, c := range map[string]struct {
		call Call
		err  string
	}{
		"as it is":              {Call{Tool: "run", Agent: "x 1"}, ""},
		"the longest":           {Call{Tool: strings.Repeat("t", MaxTool), Agent: strings.Repeat("a", MaxAgent), Args: strings.Repeat("a", MaxCallArgs), Refused: strings.Repeat("r", MaxCallArgs)}, ""},
		"no tool":               {Call{Agent: "x"}, "tool is one line"},
		"no agent":              {Call{Tool: "run"}, "agent is one line"},
		"a longer tool":         {Call{Tool: strings.Repeat("t", MaxTool+1), Agent: "x"}, "1 to 64 bytes"},
		"a longer agent":        {Call{Tool: "run", Agent: strings.Repeat("a", MaxAgent+1)}, "1 to 100 bytes"},
		"two lines":             {Call{Tool: "run\nrm", Agent: "x"}, "tool is one line"},
		"text from the right":   {Call{Tool: "run", Agent: "\u202ex"}, "agent is one line"},
		"no text":               {Call{Tool: "run\xff", Agent: "x"}, "tool is one line"},
		"longer arguments":      {Call{Tool: "run", Agent: "x", Args: strings.Repeat("a", MaxCallArgs+1)}, "at most 1024 bytes"},
		"a longer reason":       {Call{Tool: "run", Agent: "x", Refused: strings.Repeat("r", MaxCallArgs+1)}, "at most 1024 bytes"},
		"separated paragraphs":  {Call{Tool: "a\u2029b", Agent: "x"}, "tool is one line"},
		"a line of its own":     {Call{Tool: "a\u2028b", Agent: "x"}, "tool is one line"},
		"letters of any script": {Call{Tool: "läuft", Agent: "日本"}, ""},
	} {
		_, err := c.call.Entry()
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.err)
		}
	}
	call := Call{Tool: "run", Args: "a=1", Agent: "x 1"}
	if e, _ := call.Entry(); !reflect.DeepEqual(e, Entry{Action: ActionCall, Target: "run", Args: "a=1", Agent: "x 1", Result: Asked}) {
		t.Errorf("%+v", e)
	}
	call.Refused = "too many"
	if e, _ := call.Entry(); e.Result != Refused || e.Reason != "too many" {
		t.Errorf("%+v", e)
	}
}

func TestNamesOfProgramsOfAssistants(t *testing.T) {
	for _, c := range []struct{ name, version, want string }{
		{"x", "1.2", "x 1.2"},
		{"x\ny", "\u202e1", "xy 1"},
		{"", "", "unknown"},
		{"\xff", "", "unknown"},
		{strings.Repeat("x", 200), "1", strings.Repeat("x", MaxAgent-3) + "…"},
	} {
		if got := AgentName(c.name, c.version); got != c.want {
			t.Errorf("%q %q: %q, want %q", c.name, c.version, got, c.want)
		}
		call := Call{Tool: ToolName(c.name), Agent: AgentName(c.name, c.version)}
		if _, err := call.Entry(); err != nil {
			t.Errorf("%q: %v", c.name, err)
		}
	}
}

func TestTheEntryOfADispatch(t *testing.T) {
	var peels []target.PeelID
	for _, id := range []string{"f", "e", "d", "c", "b", "a"} {
		peels = append(peels, target.PeelID(id))
	}
	spec := &job.Spec{JID: wire.JID("j1"), Function: "cmd.run", StateID: "one", TargetExpr: "*", Targets: peels}
	spec.Args = map[string]any{"command": "<ls>", "stdin": "x", "env": map[string]any{"A": "1"}, "n": 3}
	spec.Metadata = map[string]string{job.MetaAgent: "x 1", job.MetaHeld: "h1"}
	e := Dispatch(spec, nil, false)
	if e.Action != ActionDispatch || e.Result != Done || e.Target != "*" || e.JID != "j1" || e.Count != 6 || e.Agent != "x 1" || e.Held != "h1" {
		t.Errorf("%+v", e)
	}
	if strings.Join(e.Peels, "") != "abcde" || e.PeelsHash != Dispatch(spec, nil, false).PeelsHash || e.PeelsHash == "" || peels[0] != "f" {
		t.Errorf("%q, %s", e.Peels, e.PeelsHash)
	}
	if want := `command="<ls>" env={"A":"•••"} id="one" n=3 stdin="•••"`; e.Args != want {
		t.Errorf("%s, want %s", e.Args, want)
	}
	spec.Targets = peels[:1]
	if one := Dispatch(spec, errors.New("no"), true); one.Result != Refused || one.Reason != "no" || one.PeelsHash == e.PeelsHash || len(one.Peels) != 1 {
		t.Errorf("%+v", one)
	}
	spec.Targets = nil
	if none := Dispatch(spec, errors.New("no"), false); none.Result != Failed || none.PeelsHash != "" || none.Peels != nil {
		t.Errorf("%+v", none)
	}
}

// The entry is written once more only in the minute after a request.
func TestOldRequestsAreNotRecordedAgain(t *testing.T) {
	if IsRepeat(time.Now().Add(-50*time.Second)) || !IsRepeat(time.Now().Add(-70*time.Second)) {
		t.Error("which requests are recorded again")
	}
}

// The name of a user is one token of a subject, so it has none of the characters that mean something there.
func TestUsersInSubjects(t *testing.T) {
	all := "azAZ09_-:"
	for user, want := range map[string]string{
		all: all, "": "_", "a.b": "a_b", "a*>": "a__", "a b": "a_b", "@[`{/;": "______",
		strings.Repeat("x", maxUser):       strings.Repeat("x", maxUser),
		strings.Repeat("x", maxUser) + "y": strings.Repeat("x", maxUser),
	} {
		if got := token(user); got != want {
			t.Errorf("%q: %q, want %q", user, got, want)
		}
	}
	if got := subjectOf(&Entry{Action: "job.dispatch", User: "a.b"}); got != subjects+"job.dispatch.a_b" {
		t.Errorf("%s", got)
	}
}

func TestEntriesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	peels := []string{long, "b", "c", "d", "e", "f"}
	e := Entry{Target: long, Reason: long, Function: long, Agent: long, Held: long, JID: wire.JID(long), Args: long, EntryPeels: EntryPeels{peels, long}}
	bound(&e)
	for _, text := range []string{e.Target, e.Reason, e.Function, e.PeelsHash, e.Agent, e.Held, string(e.JID)} {
		if len(text) != maxText {
			t.Errorf("%d bytes", len(text))
		}
	}
	if len(e.Args) != maxArgs || len(e.Peels) != MaxPeels || len(e.Peels[0]) != maxText/4 || e.Peels[1] != "b" {
		t.Errorf("%d bytes of arguments, %d peels", len(e.Args), len(e.Peels))
	}
	if peels[0] != long {
		t.Error("the list of the caller is changed")
	}
}
