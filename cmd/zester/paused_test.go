package main

import (
	"errors"
	"testing"
)

// helloEntry is the beginning of a settings file that keeps the entry of the repo, without which a commit waits for approval.
const helloEntry = "schedule:\n  hello: {module: test.echo, args: {text: hello}, interval: 1h}\n"

// An entry that failures have paused shows wherever the state of the fleet does, until it is resumed.
func TestEntriesThatFailuresHavePausedAreShown(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	_, err := f.work.Commit("Check often", map[string][]byte{
		"settings/web.yaml": []byte(helloEntry + "  check: {module: test.fail, interval: 1s, pause_after_errors: 2}\n"),
	}, ada)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		f.until(t.Context(), `(?m)^web-01 +applied, 1 paused_errors +yes .* entry check is paused by failures in a row( |$)`, "sync", "peels"),
		f.until(t.Context(), `(?m)^paused: +check on web-01, by failures in a row \(paused_errors\)\n(.*\n)*paused: +check on web-02`, "sync", "status"),
		f.until(t.Context(), `(?m)^warning +entries: check on web-01, by failures in a row \(paused_errors\)\n +hint: zester schedule history web-01 check, then zester schedule resume web-01 check$`, "doctor"),
		f.until(t.Context(), `"paused_errors": \[\s+\{\s+"peel": "web-01",\s+"entries": \[\s+"check"`, "sync", "status", "-o", "json"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.work.Commit("Check less often", map[string][]byte{
		"settings/web.yaml": []byte(helloEntry + "  check: {module: test.fail, interval: 1h, pause_after_errors: 2}\n"),
	}, ada); err != nil {
		t.Fatal(err)
	}
	if err := f.until(t.Context(), `(?m)^web-01 +applied +yes`, "sync", "peels"); err != nil {
		t.Error(err)
	}
}

func TestTheDoctorShowsWhatPeelsReport(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	if _, err := f.work.Commit("Run what peels do not have", map[string][]byte{
		"settings/web.yaml": []byte(helloEntry + "  check: {module: site.check, interval: 1h}\n"),
	}, ada); err != nil {
		t.Fatal(err)
	}
	err := f.until(t.Context(), `(?m)^warning +applied settings: 2 of 4 report errors: web-01: .*no function "site.check".*; web-02: .*\n +hint: zester sync peels`, "doctor")
	if err != nil {
		t.Fatal(err)
	}
}
