package api_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var web = audit.PeelsHash([]target.PeelID{"web-01", "web-02"})

// dispatch and pause are valid requests.
func dispatch() api.HoldAddRequest {
	return api.HoldAddRequest{
		Kind: api.HoldDispatch, Target: "web-*", Hash: web, Module: "cmd.run", Args: map[string]any{"command": "df -h /"},
		Reason: "the disk of web-01 fills up", Agent: "helper 1.2",
	}
}

func pause() api.HoldAddRequest {
	return api.HoldAddRequest{Kind: api.HoldPause, Target: "web-*", Hash: web, Entry: "backup", For: 2 * time.Hour, Reason: "the disk is replaced", Agent: "helper 1.2"}
}

func TestWhatAnAssistantMayAskFor(t *testing.T) {
	for _, q := range []api.HoldAddRequest{dispatch(), pause()} {
		if err := q.Check(); err != nil {
			t.Error(err)
		}
	}
	for what, c := range map[string]struct {
		of     func() api.HoldAddRequest
		change func(q *api.HoldAddRequest)
		want   string
	}{
		"no target":              {dispatch, func(q *api.HoldAddRequest) { q.Target = " " }, "target is missing"},
		"a long target":          {dispatch, func(q *api.HoldAddRequest) { q.Target = strings.Repeat("x", api.HoldMaxTarget+1) }, "target has 2049 bytes, the limit is 2048"},
		"no reason":              {dispatch, func(q *api.HoldAddRequest) { q.Reason = "" }, "reason is missing"},
		"a long reason":          {dispatch, func(q *api.HoldAddRequest) { q.Reason = strings.Repeat("x", api.HoldMaxReason+1) }, "reason has 257 bytes, the limit is 256"},
		"a reason of two lines":  {dispatch, func(q *api.HoldAddRequest) { q.Reason = "ok\nrun test.ping on 1 peel? [y/N]" }, "reason has the character U+000A at byte 2: it is one line of text"},
		"a reason that moves":    {dispatch, func(q *api.HoldAddRequest) { q.Reason = "ok\x1b[2A" }, "reason has the character U+001B at byte 2"},
		"a reason that turns":    {dispatch, func(q *api.HoldAddRequest) { q.Reason = "ok \u202egnip.tset" }, "reason has the character U+202E at byte 3"},
		"a reason of two pages":  {dispatch, func(q *api.HoldAddRequest) { q.Reason = "ok\u2029" }, "reason has the character U+2029"},
		"bytes":                  {dispatch, func(q *api.HoldAddRequest) { q.Reason = "\xff" }, "reason is not UTF-8"},
		"no agent":               {pause, func(q *api.HoldAddRequest) { q.Agent = "" }, "agent is missing"},
		"an agent of two lines":  {pause, func(q *api.HoldAddRequest) { q.Agent = "helper\rmaster" }, "agent has the character U+000D"},
		"no hash":                {pause, func(q *api.HoldAddRequest) { q.Hash = "" }, "hash is not the hash of peels"},
		"a hash of other digits": {pause, func(q *api.HoldAddRequest) { q.Hash = strings.ToUpper(web) }, "hash is not the hash of peels"},
		"another kind":           {dispatch, func(q *api.HoldAddRequest) { q.Kind = "shell" }, `kind is "shell": it is dispatch or pause`},
		"no function":            {dispatch, func(q *api.HoldAddRequest) { q.Module = "" }, "module is missing"},
		"no such function":       {dispatch, func(q *api.HoldAddRequest) { q.Module = "cmd.rum" }, `no such function "cmd.rum"`},
		"no such argument":       {dispatch, func(q *api.HoldAddRequest) { q.Args["comand"] = "df" }, "comand"},
		"secrets": {dispatch, func(q *api.HoldAddRequest) {
			q.Module, q.Args = "settings.get", map[string]any{catalogue.SecretsTo: "key"}
		}, "secrets are shown to people alone"},
		"long arguments":            {dispatch, func(q *api.HoldAddRequest) { q.Args["command"] = strings.Repeat("x", api.HoldMaxArgs) }, "args take 4108 bytes"},
		"bytes in arguments":        {dispatch, func(q *api.HoldAddRequest) { q.Args["env"] = map[string]any{"a": []any{[]byte("x")}} }, "args have binary data"},
		"other text":                {dispatch, func(q *api.HoldAddRequest) { q.Args["command"] = "\xff" }, "args have binary data"},
		"a long bare argument":      {dispatch, func(q *api.HoldAddRequest) { q.StateID = strings.Repeat("x", api.HoldMaxText+1) }, "state_id has 4097 bytes"},
		"a dispatch of an entry":    {dispatch, func(q *api.HoldAddRequest) { q.Entry = "backup" }, "entry and for are of a pause"},
		"a dispatch with an end":    {dispatch, func(q *api.HoldAddRequest) { q.For = time.Hour }, "entry and for are of a pause"},
		"a pause without an end":    {pause, func(q *api.HoldAddRequest) { q.For = 0 }, "for is 0s: a pause that an assistant asks for lasts 1s to 30d"},
		"a pause for ever":          {pause, func(q *api.HoldAddRequest) { q.For = api.HoldMaxFor + 1 }, "lasts 1s to 30d"},
		"a pause without an entry":  {pause, func(q *api.HoldAddRequest) { q.Entry = "" }, "entry is missing"},
		"a pause with a function":   {pause, func(q *api.HoldAddRequest) { q.Module = "cmd.run" }, "module, state_id and args are of a dispatch"},
		"a pause with arguments":    {pause, func(q *api.HoldAddRequest) { q.Args = map[string]any{"cmd": "x"} }, "module, state_id and args are of a dispatch"},
		"a pause with a bare value": {pause, func(q *api.HoldAddRequest) { q.StateID = "x" }, "module, state_id and args are of a dispatch"},
	} {
		q := c.of()
		c.change(&q)
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}

func TestTheJobOfAnAction(t *testing.T) {
	for _, c := range []struct {
		add  api.HoldAddRequest
		want job.Spec
	}{
		{dispatch(), job.Spec{Function: "cmd.run", Args: map[string]any{"command": "df -h /"}, Timeout: job.DefaultTimeout}},
		{pause(), job.Spec{Function: "schedule.pause", Args: map[string]any{"entry": "backup", "for": "2h", "reason": "the disk is replaced"}, Timeout: job.DefaultTimeout}},
	} {
		a := api.HoldAction{ID: "2abcdefghijklmnopqrstuvwxyz", HoldAddRequest: c.add, By: "ann", JID: "2bbcdefghijklmnopqrstuvwxyz"}
		c.want.JID, c.want.TargetExpr = a.JID, "web-*"
		c.want.Metadata = map[string]string{"reason": c.add.Reason, "asked_by": "ann", "agent": "helper 1.2", "held": string(a.ID)}
		got := a.Spec()
		if !got.SameIntent(&c.want) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
		if err := catalogue.CheckCall(got.Function, got.StateID, got.Args); err != nil {
			t.Error(err)
		}
	}
}

func TestAnOpenActionExpires(t *testing.T) {
	ends := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		state, want api.HoldState
		at          time.Time
	}{
		{api.HoldOpen, api.HoldOpen, ends.Add(-1)},
		{api.HoldOpen, api.HoldExpired, ends},
		{api.HoldApproved, api.HoldApproved, ends},
		{api.HoldRejected, api.HoldRejected, ends},
	} {
		if got := (api.HoldAction{State: c.state, Expires: ends}).At(c.at).State; got != c.want {
			t.Errorf("%s at %v is %s, want %s", c.state, c.at, got, c.want)
		}
	}
}

func TestIDsAreKSUIDs(t *testing.T) {
	if id, err := api.ParseHoldID("2abcdefghijklmnopqrstuvwxyz"); err != nil || id != "2abcdefghijklmnopqrstuvwxyz" {
		t.Error(id, err)
	}
	for _, s := range []string{"", "*", ">", "2abcdefghijklmnopqrstuvwxy.", "web-01"} {
		if id, err := api.ParseHoldID(s); err == nil {
			t.Errorf("%q is the ID %s", s, id)
		}
	}
}

func FuzzAdd(f *testing.F) {
	for _, q := range []api.HoldAddRequest{dispatch(), pause(), {}} {
		data, err := canon.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var q api.HoldAddRequest
		if canon.Unmarshal(data, &q) != nil || q.Check() != nil {
			return
		}
		again, err := canon.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		var same api.HoldAddRequest
		if err := errors.Join(canon.Unmarshal(again, &same), same.Check()); err != nil {
			t.Errorf("what was accepted is refused when it comes again: %v", err)
		}
		spec := (&api.HoldAction{HoldAddRequest: q}).Spec()
		if err := catalogue.CheckCall(spec.Function, spec.StateID, spec.Args); err != nil {
			t.Errorf("peels would refuse it: %v", err)
		}
	})
}
