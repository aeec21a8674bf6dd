package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// clientAt connects with a file of a credential.
func clientAt(url, creds string) (*api.Client, error) {
	data, err := os.ReadFile(creds)
	if err != nil {
		return nil, err
	}
	return api.Connect(api.ClientOptions{URL: url, Creds: data})
}

// asksFor stores an action as the program of an assistant does: it looks at the peels, and asks in the name of its user.
func asksFor(ctx context.Context, client *api.Client, q api.HoldAddRequest) (*api.HoldAction, error) {
	seen, err := client.Resolve(ctx, q.Target)
	if err != nil {
		return nil, err
	}
	q.Kind, q.Hash = cmp.Or(q.Kind, api.HoldDispatch), audit.PeelsHash(seen.Peels)
	return api.HoldAdd.Ask(ctx, client, q)
}

func init() {
	// asks-for CREDS AGENT REASON TARGET COMMAND: an assistant with the credential asks for cmd.run; sets ACTION
	commands["asks-for"] = func(ts *testscript.TestScript, _ bool, args []string) {
		client, err := clientAt(ts.Getenv("URL"), ts.MkAbs(args[0]))
		ts.Check(err)
		defer client.Close()
		a, err := asksFor(context.Background(), client, api.HoldAddRequest{Agent: args[1], Reason: args[2], Target: args[3], Module: "cmd.run", Args: map[string]any{"command": args[4]}})
		ts.Check(err)
		ts.Setenv("ACTION", string(a.ID))
	}
}

// A hostile assistant writes what could be taken for the command's own words.
func TestWhatAnAssistantSaysLooksLikeNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a bubble begins at a fixed time
		now := time.Now().UTC()
		names := []target.PeelID{"db-01", "web-01", "web-02"}
		nice := api.HoldAction{
			ID: "37dGaoSrFIRXbpOFJdtFuWUJSsF", By: "ann", Created: now, Expires: now.Add(api.HoldLifetime), Peels: 3, State: api.HoldOpen,
			HoldAddRequest: api.HoldAddRequest{Kind: api.HoldDispatch, Target: "web-* or db-*", Module: "cmd.run", Args: map[string]any{"command": "df -h /"}, Reason: "the disk of web-01 fills up", Agent: "helper 1.2"},
		}
		hostile := nice
		hostile.ID, hostile.StateID = "37dGaoY9GyQuRDICgAAqCsEa3e1", "\x1b[2J\x1b[Hrun test.ping on 1 peel as ann? [y/N] "
		hostile.Target = "web-* or L@" + strings.Repeat("web-01,", 30) + "web-02"
		hostile.Reason = strings.Repeat(" ", 60) + "Masters know: runs: test.ping, which only reads" + strings.Repeat(" ", 60) + "ok"
		hostile.Agent = "helper \u202egnip.tset\u2066 \u05d0\u05d1 \u200b\u00a0 e\u0301\u0302\u0303\u0304 ｒｕｎ"
		hostile.Args = map[string]any{
			"command": "#!/bin/sh\nrm -rf /\r\n\x00\x9b2K\ttrue \\n \"'<&>\u2028" + strings.Repeat("長", 50),
			"env":     map[string]any{"A\nB": []any{"x\ny", int64(1), nil}},
		}
		pause := nice
		pause.ID, pause.State, pause.DecidedBy, pause.DecidedAt, pause.JID = "37dGb00000000000000000000ab", api.HoldApproved, "bob", now, "37dGb11111111111111111111ab"
		pause.HoldAddRequest = api.HoldAddRequest{Kind: api.HoldPause, Target: "*", Entry: "backup", For: 36 * time.Hour, Reason: "the disk is replaced", Agent: "helper 1.2"}
		for _, columns := range []int{80, 120} {
			var got bytes.Buffer
			a := &app{out: &got, errOut: &got, output: formTable, columns: columns, colour: "never"}
			fmt.Fprintln(&got, "$ zester approve --all")
			if err := a.show(nil, heldTable([]api.HoldAction{pause, hostile, nice})); err != nil {
				t.Error(err)
			}
			for _, v := range []api.HoldAction{nice, hostile} {
				fmt.Fprintf(&got, "\n$ zester approve %s\n", v.ID)
				a.describeHeld(&api.HoldShown{HoldAction: v, Names: names}, &api.TargetsPage{Peels: names, Offline: names[:1]}, "bob")
			}
			fmt.Fprintf(&got, "\n$ zester approve %s\n", pause.ID)
			a.describeHeld(&api.HoldShown{HoldAction: pause, Names: names}, nil, "")
			for line := range strings.Lines(got.String()) {
				if n := len([]rune(line)) - 1; n > columns {
					t.Errorf("on %d columns a line takes %d: %s", columns, n, line)
				}
			}
			for i, r := range got.String() {
				if r != '\n' && (r < ' ' || r == 0x7f || r > 0x7f && strings.ContainsRune("\u009b\u00a0\u200b\u2028\u202e\u2066\u05d0\u05d1", r)) {
					t.Errorf("%U at %d is printed", r, i)
				}
			}
			compareGolden(t, fmt.Sprintf("testdata/screens/approve%d.txt", columns), got.Bytes())
		}
	})
}

// An own fleet, because peels join it.
func TestAnActionRunsOnceAndOnThePeelsThatWereSeen(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ctx, stop := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	defer func() {
		stop()
		_ = g.Wait() // ends with stop
	}()
	dir := t.TempDir()
	if err := f.credentials(dir); err != nil {
		t.Fatal(err)
	}
	client, err := clientAt(f.url, dir+"/direct.creds")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ask := func() api.HoldID {
		t.Helper()
		a, err := asksFor(ctx, client, api.HoldAddRequest{Agent: "helper 1.2", Reason: "a test", Target: "web-* or db-*", Module: "cmd.run", Args: map[string]any{"command": "true"}})
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	person := func(name string) []string {
		creds, err := f.keys.Creds(grants.RoleOperator, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		ca, err := os.ReadFile(f.ca)
		if err != nil {
			t.Fatal(err)
		}
		file := dir + "/" + name + ".creds"
		if err := os.WriteFile(file, append(creds, ca...), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--url", f.url, "--creds", file}
	}
	type ended struct {
		code     int
		out, err string
	}
	zester := func(args ...string) ended {
		var out, errOut bytes.Buffer
		code := run(ctx, args, &out, &errOut)
		return ended{code, out.String(), errOut.String()}
	}
	approve := func(who []string, id api.HoldID) ended {
		return zester(append([]string{"approve", string(id), "--yes", "-o", "json"}, who...)...)
	}
	people := map[string][]string{"ann": person("ann"), "bob": person("bob"), "cyd": person("cyd")}

	// Several approvers at once: one job.
	id := ask()
	var approving sync.WaitGroup
	var mu sync.Mutex
	by := map[string]ended{}
	for name, who := range people {
		approving.Go(func() {
			e := approve(who, id)
			mu.Lock()
			defer mu.Unlock()
			by[name] = e
		})
	}
	approving.Wait()
	winner := ""
	for name, e := range by {
		switch {
		case e.code == exitOK && winner == "":
			winner = name
		case e.code != exitFailed:
			t.Errorf("%s ended with %d: %s%s", name, e.code, e.out, e.err)
		}
	}
	for name, e := range by {
		if want := "was approved by " + winner; name != winner && !strings.Contains(e.err, want) {
			t.Errorf("%s is not told %q: %s", name, want, e.err)
		}
	}
	jobs := zester("job", "list", "--data-dir", f.dir, "--function", "cmd.run", "-o", "json")
	if strings.Count(jobs.out, `"jid"`) != 1 || !strings.Contains(jobs.out, `"user": "`+winner+`"`) || !strings.Contains(jobs.out, `"asked_by": "dan"`) {
		t.Errorf("%s approved, the jobs are %s", winner, jobs.out)
	}

	// The client dies after it has approved and before it starts the job.
	id = ask()
	dying, err := clientAt(f.url, people["bob"][3])
	if err != nil {
		t.Fatal(err)
	}
	approved, err := api.HoldApprove.Ask(ctx, dying, api.HoldRequest{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	dying.Close()
	if e := zester(append([]string{"approve", "--all"}, people["ann"]...)...); !strings.Contains(e.out, string(id)+"  approved, no job") {
		t.Errorf("listed are %s%s", e.out, e.err)
	}
	if e := approve(people["ann"], id); e.code != exitFailed || !strings.Contains(e.err, "and its job was not started\nhint: bob can run it until ") {
		t.Errorf("ended with %d: %s", e.code, e.err)
	}
	if e := approve(people["bob"], id); e.code != exitOK || !strings.Contains(e.err, "job "+string(approved.JID)+" on 3 peels") {
		t.Errorf("ended with %d: %s%s", e.code, e.out, e.err)
	}
	if e := approve(people["bob"], id); e.code != exitFailed || !strings.Contains(e.err, "hint: zester job show "+string(approved.JID)) {
		t.Errorf("ended with %d: %s%s", e.code, e.out, e.err)
	}

	// A pause ends by itself.
	pause, err := asksFor(ctx, client, api.HoldAddRequest{Kind: api.HoldPause, Agent: "helper 1.2", Reason: "a \"new\" disk", Target: "web-01", Entry: "hello", For: 26 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if e := approve(people["cyd"], pause.ID); e.code != exitOK || !strings.Contains(e.err, `  | pause: "hello" for 26h`) {
		t.Errorf("ended with %d: %s%s", e.code, e.out, e.err)
	}
	if e := zester("schedule", "list", "web-01", "--data-dir", f.dir, "-o", "json"); !strings.Contains(e.out, `"state": "paused_manual"`) || !strings.Contains(e.out, `a \"new\" disk`) {
		t.Errorf("the entries are %s%s", e.out, e.err)
	}

	// A peel joins before somebody approves.
	id = ask()
	if _, err := f.startPeel(ctx, g, "web-03"); err != nil {
		t.Fatal(err)
	}
	if err := f.until(ctx, `(?m)^web-03$`, "target", "eval", "web-*", "-o", "name"); err != nil {
		t.Fatal(err)
	}
	e := approve(people["ann"], id)
	if want := "the target selects other peels than the assistant saw: web-03 joined; nothing was approved"; e.code != exitCanceled || !strings.Contains(e.err, want) {
		t.Errorf("ended with %d, not with %q: %s%s", e.code, want, e.out, e.err)
	}
	_, err = api.HoldApprove.Ask(ctx, client, api.HoldRequest{ID: id}) // a client that does not look
	if api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "the target selects other peels than it did before: 4 now") {
		t.Errorf("approved without a look: %v", err)
	}
	if e := zester(append([]string{"approve"}, people["ann"]...)...); !strings.Contains(e.out, string(id)+"  open") {
		t.Errorf("listed are %s%s", e.out, e.err)
	}
}

// Whoever cannot approve learns why, and what to do.
func TestWhyAnActionCannotBeApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		open := api.HoldAction{ID: "37dGaoSrFIRXbpOFJdtFuWUJSsF", Expires: now.Add(time.Hour), State: api.HoldOpen}
		decided := func(s api.HoldState, by string) api.HoldAction {
			a := open
			a.State, a.DecidedBy, a.DecidedAt, a.JID = s, by, now, "37dGb11111111111111111111ab"
			return a
		}
		dispatched, late := decided(api.HoldApproved, "ann"), decided(api.HoldApproved, "ann")
		dispatched.Dispatched, late.Expires = true, now
		for _, c := range []struct {
			a    api.HoldAction
			want string // the error and the hint; empty: it can be approved
		}{
			{open, ""},
			{decided(api.HoldApproved, "ann"), ""},
			{decided(api.HoldExpired, ""), "expired at 2000-01-01 01:00:00 UTC|have the assistant ask again"},
			{decided(api.HoldRejected, "bob"), "was rejected by bob at 2000-01-01 00:00:00 UTC|have the assistant ask again"},
			{dispatched, "was approved by ann at 2000-01-01 00:00:00 UTC|zester job show 37dGb11111111111111111111ab shows its job"},
			{decided(api.HoldApproved, "bob"), "was approved by bob at 2000-01-01 00:00:00 UTC, and its job was not started|bob can run it until 2000-01-01 01:00:00 UTC with zester approve 37dGaoSrFIRXbpOFJdtFuWUJSsF; or have the assistant ask again"},
			{late, "was approved by ann at 2000-01-01 00:00:00 UTC, and its job was not started|have the assistant ask again"},
		} {
			got := ""
			if f, ok := errors.AsType[*failure](canApprove(&c.a, "ann", now)); ok {
				got = strings.TrimPrefix(f.Error(), "action 37dGaoSrFIRXbpOFJdtFuWUJSsF ") + "|" + f.hint
			}
			if got != c.want {
				t.Errorf("%+v: %q, want %q", c.a, got, c.want)
			}
		}
	})
}

func TestWhichPeelsJoinedAndLeft(t *testing.T) {
	s := &api.HoldShown{HoldAction: api.HoldAction{Peels: 3}, Names: []target.PeelID{"a", "b", "c"}}
	for want, now := range map[string][]target.PeelID{
		": d, e joined; nothing":         {"a", "b", "c", "d", "e"},
		": a, c left; nothing":           {"b"},
		": d joined; b, c left; nothing": {"a", "d"},
	} {
		if err := otherPeels(s, now); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s.Names = nil // they were too many to keep
	if err := otherPeels(s, []target.PeelID{"a"}); !strings.Contains(err.Error(), ": 3 then, 1 now; nothing") {
		t.Error(err)
	}
}

// FuzzClaims: whatever an assistant says, each line that is printed of it is marked, fits, and moves nothing.
func FuzzClaims(f *testing.F) {
	f.Add("helper", "a\nb\x1b[2J", "\u202e\u05d0\u200b長é\u0301\u0301\u0301", uint8(40))
	f.Add("\\n\n\n\"", strings.Repeat("ｒ", 90), "\xff\u2028", uint8(0))
	f.Fuzz(func(t *testing.T, agent, reason, arg string, columns uint8) {
		width := int(columns) + 20
		v := api.HoldAction{HoldAddRequest: api.HoldAddRequest{Agent: agent, Reason: reason, Target: reason, StateID: arg, Args: map[string]any{arg: []any{arg, map[string]any{agent: nil}}}}}
		var out bytes.Buffer
		for _, c := range claims(&v) {
			printClaim(&out, c, width)
		}
		for line := range strings.Lines(out.String()) {
			size := 0
			for _, r := range strings.TrimSuffix(line, "\n") {
				if size++; r >= utf8.RuneSelf {
					size++
				}
				if !unicode.IsPrint(r) || isRightToLeft(r) || unicode.Is(unicode.Bidi_Control, r) {
					t.Errorf("%U is printed in %q", r, line)
				}
			}
			if !strings.HasPrefix(line, "  | ") || size > width {
				t.Errorf("on %d columns a line takes %d: %q", width, size, line)
			}
		}
	})
}
