package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestTheDoctorReportsDatesClocksAndStreams(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	certificate := func(from, until time.Duration) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: "m"}, NotBefore: now.Add(from), NotAfter: now.Add(until)}
	}
	for what, c := range map[string]struct {
		look func(*doctor)
		want severity // empty: nothing is said
	}{
		"good for long":             {func(d *doctor) { d.dates("c", certificate(-day, 15*day), "") }, sound},
		"ends soon":                 {func(d *doctor) { d.dates("c", certificate(-day, 13*day), "") }, warning},
		"has ended":                 {func(d *doctor) { d.dates("c", certificate(-2*day, -day), "") }, broken},
		"not yet good":              {func(d *doctor) { d.dates("c", certificate(day, 90*day), "") }, broken},
		"clocks agree":              {func(d *doctor) { d.clock(time.Second, 0) }, sound},
		"far, but so is the answer": {func(d *doctor) { d.clock(3*time.Second, 2*time.Second) }, sound},
		"clock behind":              {func(d *doctor) { d.clock(-3*time.Second, 0) }, warning},
		"clock far ahead":           {func(d *doctor) { d.clock(2*time.Minute, time.Second) }, broken},
		"stream with room":          {func(d *doctor) { d.stream(&bucket.Usage{Messages: 70, MaxMessages: 100, Bytes: 1}) }, ""},
		"stream without limits":     {func(d *doctor) { d.stream(&bucket.Usage{Messages: 70}) }, ""},
		"stream near its count":     {func(d *doctor) { d.stream(&bucket.Usage{Messages: 80, MaxMessages: 100}) }, warning},
		"stream near its size":      {func(d *doctor) { d.stream(&bucket.Usage{Bytes: 80, MaxBytes: 100, MaxMessages: 5}) }, warning},
		"trimmed stream":            {func(d *doctor) { d.stream(&bucket.Usage{Messages: 81, MaxMessages: 100, Refuses: true}) }, ""},
		"stream that stays full":    {func(d *doctor) { d.stream(&bucket.Usage{Messages: 90, MaxMessages: 100, Refuses: true}) }, warning},
		"stream that refuses":       {func(d *doctor) { d.stream(&bucket.Usage{Bytes: 96, MaxBytes: 100, Refuses: true}) }, broken},
		"copies behind":             {func(d *doctor) { d.stream(&bucket.Usage{Copies: 3, Behind: 1}) }, broken},
		"copies on one server":      {func(d *doctor) { d.copies([]bucket.Usage{{Copies: 1}}) }, ""},
		"copies on a cluster":       {func(d *doctor) { d.copies([]bucket.Usage{{Copies: 3, Clustered: true}}) }, ""},
		"one copy on a cluster":     {func(d *doctor) { d.copies([]bucket.Usage{{Copies: 1, Clustered: true}, {Copies: 1, Clustered: true}}) }, warning},
		"a master's is good for long": {func(d *doctor) {
			d.masters([]credential.Held{{Role: grants.RoleMaster, Name: "m2", Expires: now.Add(15 * day)}, {Role: grants.RoleMaster, Name: "m3"}, {Role: grants.RoleAuditor, Name: "a", Expires: now.Add(day)}})
		}, ""},
		"a master's ends soon": {func(d *doctor) {
			d.masters([]credential.Held{{Role: grants.RoleMaster, Name: "m2", Expires: now.Add(13 * day)}})
		}, warning},
		"a master's has ended": {func(d *doctor) {
			d.masters([]credential.Held{{Role: grants.RoleMaster, Name: "m2", Expires: now.Add(-day)}})
		}, broken},
		"all peels are there":     {func(d *doctor) { d.peels([]api.Peel{{ID: "a", Online: true}}) }, sound},
		"a peel is not heard yet": {func(d *doctor) { d.peels([]api.Peel{{ID: "a", Online: true}, {ID: "b", Unknown: true}}) }, sound},
		"a peel is away":          {func(d *doctor) { d.peels([]api.Peel{{ID: "a", Online: true}, {ID: "b"}}) }, warning},
		"a peel reports no error": {func(d *doctor) { d.applied([]status.Peel{{Peel: "a", State: status.Applied}}) }, ""},
		"a peel reports an error": {func(d *doctor) { d.applied([]status.Peel{{Peel: "a", State: status.Applied, Errors: []string{"x"}}}) }, warning},
		"a peel is gone with one": {func(d *doctor) {
			d.applied([]status.Peel{{Peel: "a", State: status.Decommissioned, Errors: []string{"x"}}})
		}, ""},
		"a credential that is none": {func(d *doctor) { d.credential([]byte("x")) }, broken},
		"an authority that is none": {func(d *doctor) { d.authorities(api.ClientOptions{CA: os.DevNull}) }, broken},
	} {
		d := doctor{now: now}
		c.look(&d)
		if c.want == "" && len(d.Findings) == 0 {
			continue
		}
		if len(d.Findings) != 1 || d.Findings[0].State != c.want {
			t.Errorf("%s: %+v", what, d.Findings)
		}
	}
}

func TestTheDoctorJudgesTheReconciler(t *testing.T) {
	for _, kind := range status.Types {
		if _, judged := symptoms[kind]; !judged {
			t.Errorf("nobody has decided what the doctor says of %s", kind)
		}
	}
	on := func(kind status.Type, reason, message string) status.Condition {
		return status.Condition{Type: kind, Status: true, Reason: reason, Message: message, ObservedRevision: "c2"}
	}
	ready := on(status.Ready, "InForce", "")
	for what, c := range map[string]struct {
		conditions []status.Condition
		want       string // the findings beside the revision in force
	}{
		"all is well":        {[]status.Condition{ready, on(status.Reconciling, "Attempt", ""), on(status.RolloutProgressing, "Wave", "wave 1"), on(status.SourceVerified, "Signed", ""), {Type: status.FetchFailed}}, ""},
		"the remote is away": {[]status.Condition{ready, on(status.FetchFailed, "Unreachable", "no route")}, "warning FetchFailed: Unreachable no route"},
		"for good":           {[]status.Condition{ready, on(status.FetchFailed, "RefNotFound", "no main"), on(status.Stalled, "RefNotFound", "no main")}, "broken Stalled: RefNotFound no main"},
		"refused":            {[]status.Condition{ready, on(status.CompileFailed, "Invalid", "top.yaml:1:1: x\nmore")}, "broken CompileFailed: Invalid top.yaml:1:1: x"},
		"isolated":           {[]status.Condition{ready, on(status.CompileFailed, "Isolated", "2 peels")}, "warning CompileFailed: Isolated 2 peels"},
		"waits":              {[]status.Condition{ready, on(status.GuardBlocked, "TooManyChanges", "x")}, "warning GuardBlocked: TooManyChanges x"},
		"pinned":             {[]status.Condition{ready, on(status.Suspended, "Pinned", "by mia"), on(status.HeadSkipped, "RolledBack", "x")}, "warning Suspended: Pinned by mia, warning HeadSkipped: RolledBack x"},
		"distrusted":         {[]status.Condition{ready, {Type: status.SourceVerified, Reason: "Untrusted", Message: "x", ObservedRevision: "c2"}}, "broken SourceVerified: Untrusted x"},
		"an older signature": {[]status.Condition{ready, {Type: status.SourceVerified, Reason: "Untrusted", Message: "x", ObservedRevision: "c0"}}, ""},
		"not published":      {[]status.Condition{{Type: status.Ready, Reason: "PublishFailed", Message: "x"}}, "broken Ready: PublishFailed x"},
		"nothing yet":        {[]status.Condition{{Type: status.Ready, Reason: "NoRevision", Message: "x"}}, "warning Ready: NoRevision x"},
	} {
		d := doctor{}
		d.reconciler(&status.Sync{LastGood: status.Revision{Commit: "c1"}, LastAttempted: "c2", Conditions: c.conditions})
		var got []string
		for _, f := range d.Findings[1:] {
			got = append(got, string(f.State)+" "+f.Detail)
		}
		if strings.Join(got, ", ") != c.want || d.Findings[0].State != sound {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// Whoever makes a credential writes a file beside its name first.
func TestTheDoctorChecksKeysWhileFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	keys, err := keystore.Open(keystore.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	var writer errgroup.Group
	done := make(chan struct{})
	defer func() {
		close(done)
		if err := writer.Wait(); err != nil {
			t.Error(err)
		}
	}()
	writer.Go(func() error {
		for {
			select {
			case <-done:
				return nil
			default:
			}
			name := filepath.Join(keys.Dir(), ".new")
			if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Remove(name)); err != nil {
				return err
			}
		}
	})
	for range 500 {
		d := doctor{}
		d.ownKeys(dir)
		if len(d.Findings) != 1 || d.Findings[0].State != sound {
			t.Fatalf("%+v", d.Findings)
		}
	}
}

func TestTheDoctorFindsKeysThatOthersMayUse(t *testing.T) {
	dir := t.TempDir()
	keys, err := keystore.Open(keystore.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	look := func() diagnosis {
		d := doctor{}
		d.ownKeys(dir)
		if len(d.Findings) != 1 {
			t.Fatalf("%+v", d.Findings)
		}
		return d.Findings[0]
	}
	if f := look(); f.State != sound {
		t.Errorf("%+v", f)
	}
	files, err := filepath.Glob(filepath.Join(keys.Dir(), "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if err := os.Chmod(files[0], 0o604); err != nil {
		t.Fatal(err)
	}
	if f := look(); f.State != broken || !strings.Contains(f.Detail, files[0]) || !strings.Contains(f.Next, "chmod") {
		t.Errorf("%+v", f)
	}
}

func TestTwoHostsUnderOnePeelIDAreNamedByTheDoctor(t *testing.T) {
	d := doctor{}
	d.peels([]api.Peel{{ID: "web-01", Online: true, Duplicate: true}, {ID: "web-02", Online: true}})
	d.peels([]api.Peel{{ID: "web-03", Online: true, Key: "X1", PendingKey: "X2"}, {ID: "web-04", Online: true, PendingKey: "X3"}})
	if f := d.Findings[2]; f.State != warning || f.Detail != "secrets stay sealed to the former key of web-03, which has another key now" {
		t.Errorf("%+v", d.Findings)
	}
	if f := d.Findings[3]; f.State != warning || f.Next != "upgrade zester-peel there" || !strings.Contains(f.Detail, "web-04") {
		t.Errorf("%+v", d.Findings)
	}
	if f := d.Findings[0]; f.State != broken || f.Detail != "two processes are connected as web-01" || f.Next == "" {
		t.Errorf("%+v", d.Findings)
	}
}

func TestTheDoctorNamesThePeelsWhoseIDAnotherHostAsksFor(t *testing.T) {
	rival := func(ago time.Duration) *credential.ConflictingKey {
		return &credential.ConflictingKey{Public: "UX", From: "10.0.0.9", Time: time.Now().Add(-ago)}
	}
	d := doctor{}
	d.hosts([]credential.Enrolled{{ID: "web-01", Conflicting: rival(time.Hour)}, {ID: "web-02", Conflicting: rival(2 * time.Hour)}, {ID: "web-03"}})
	if len(d.Findings) != 1 || d.Findings[0].State != warning || d.Findings[0].Detail != "a host with another key asks to join as web-01" {
		t.Errorf("%+v", d.Findings)
	}
}

func TestTheDoctorShowsTheFirstErrorsOfPeels(t *testing.T) {
	var peels []status.Peel
	for n := range 5 {
		peels = append(peels, status.Peel{
			Peel: target.PeelID(fmt.Sprintf("web-%02d", n)), State: status.Applied,
			Errors: []string{"snapshot not stored: " + strings.Repeat("ä", 300), "another"},
		})
	}
	d := doctor{}
	d.applied(append(peels, status.Peel{Peel: "db-01", State: status.Applied}))
	f := d.Findings[0]
	if f.State != warning || f.Next != "zester sync peels shows all of them" ||
		!strings.HasPrefix(f.Detail, "5 of 6 report errors: web-00: snapshot not stored: ä") || !strings.HasSuffix(f.Detail, "… (1 more); and 2 more peels") ||
		strings.Contains(f.Detail, "web-03") || utf8.RuneCountInString(f.Detail) > 800 || !utf8.ValidString(f.Detail) {
		t.Errorf("%+v", f)
	}
}

func TestTheDoctorShowsPeelsThatReportLessThanADay(t *testing.T) {
	since := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	troubles := troublesIn([]api.CoverageRow{
		{Peel: "db-01"}, {Peel: "web-01", From: since.Add(-time.Hour)}, {Peel: "web-02", From: since.Add(7 * time.Hour)},
	}, since)
	d := doctor{}
	d.disagree(&troubles)
	want := "1 of 3 report less than the fires of a day: web-02: since " + when(since.Add(7*time.Hour))
	if f := d.Findings; len(f) != 1 || f[0].State != warning || f[0].Detail != want {
		t.Errorf("%+v, want %s", f, want)
	}
}

func TestTheDoctorShowsPeelsThatDisagree(t *testing.T) {
	rows := []api.CoverageRow{{Peel: "db-01"}}
	for n := range 5 {
		rows = append(rows, api.CoverageRow{Peel: target.PeelID(fmt.Sprintf("web-%02d", n)), Disagrees: "disk: it has refused the lists"})
	}
	troubles := troublesIn(rows, time.Time{})
	d := doctor{}
	d.disagree(&troubles)
	if f := d.Findings; len(f) != 1 || f[0].State != warning || f[0].Detail != "5 of 6 disagree: web-00: disk: it has refused the lists; "+
		"web-01: disk: it has refused the lists; web-02: disk: it has refused the lists; and 2 more peels" {
		t.Errorf("%+v", f)
	}
	troubles = troublesIn(rows[:1], time.Time{})
	d.disagree(&troubles)
	if len(d.Findings) != 1 {
		t.Errorf("without one: %+v", d.Findings[1:])
	}
}

func TestDoctorShowsTheHeadOfTheAuditLogAndItsGaps(t *testing.T) {
	head := audit.Head{Seq: 7, Digest: strings.Repeat("ab", 32)}
	d := doctor{}
	d.auditLog(&audit.Status{})
	if len(d.Findings) != 0 {
		t.Errorf("before a master has looked: %+v", d.Findings)
	}
	d.auditLog(&audit.Status{Head: head})
	d.auditLog(&audit.Status{Head: head, Gaps: 3, First: "the entries 4 to 5 are missing"})
	if f := d.Findings; len(f) != 2 || f[0].State != sound || !strings.Contains(f[0].Detail, head.String()) ||
		f[1].State != broken || f[1].Detail != "the entries 4 to 5 are missing; 3 in all" {
		t.Errorf("%+v", f)
	}
}

func TestTheDoctorNamesTheKeysThatNeedARestart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "master.yaml")
	write := func(text string) (doc *strictyaml.Node) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		doc, _ = strictyaml.Parse(file, []byte(text))
		return doc
	}
	started, err := api.ConfigFileOf(file, write("repo: a\n"))
	if err == nil {
		err = api.WriteRunInfo(dir, api.RunInfo{URL: "tls://127.0.0.1:1", Creds: "x", PID: os.Getpid(), Config: started})
	}
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]diagnosis{
		"repo: a\nlog_level: debug\n":     {State: sound, Detail: "master.yaml is in use"},
		"repo: b\naudit_retention: 30d\n": {State: warning, Detail: "and needs a restart: audit_retention, repo", Next: "systemctl restart zester-master"},
		"repo: [\n":                       {State: broken, Detail: "does not start with it again", Next: "zester-master --check --config " + file},
	} {
		write(text)
		d := doctor{}
		d.configFile(dir)
		if len(d.Findings) != 1 || d.Findings[0].State != want.State || !strings.Contains(d.Findings[0].Detail, want.Detail) || d.Findings[0].Next != want.Next {
			t.Errorf("%q: %+v, want %+v", text, d.Findings, want)
		}
		var warned strings.Builder
		(&app{connect: connection{dataDir: dir}, errOut: &warned}).warnOfConfig()
		if got := warned.String(); (got != "") != (want.State != sound) || !strings.Contains(got, want.Next) {
			t.Errorf("%q: sync wait warns %q", text, got)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	d := doctor{}
	if d.configFile(dir); len(d.Findings) > 0 {
		t.Errorf("without the file: %+v", d.Findings)
	}
}
