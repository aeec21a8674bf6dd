package main_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/examples"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// mount mounts a file system of its own at a folder of the site, or changes its size with syscall.MS_REMOUNT.
func (s *site) mount(name, size string, flags uintptr) {
	s.t.Helper()
	dir := s.path(name)
	if flags == 0 {
		if err := os.Mkdir(dir, 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, "mode=0700,size="+size); err != nil {
		s.t.Skipf("cannot mount a small disk, which takes root: %v", err)
	}
	if flags == 0 {
		s.t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				s.t.Error(err)
			}
		})
	}
}

// fill writes a file until its disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// ready waits until /readyz answers with a status and returns how long that took.
func (s *site) ready(address string, status int) time.Duration {
	s.t.Helper()
	began, tick, web := time.Now(), time.NewTicker(100*time.Millisecond), natstest.HTTPS(s.t, s.path("master/tls/ca.crt"))
	defer tick.Stop()
	for ctx := s.ctx(); ; {
		resp, err := web.Get("https://" + address + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == status {
				return time.Since(began)
			}
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("/readyz never answered with %d: %v", status, err)
		case <-tick.C:
		}
	}
}

func TestAFullDiskIsSeenAndOutlasted(t *testing.T) {
	s := newSite(t, examples.Fleet())
	s.mount("master", "1g", 0) // which is what the streams are made for; nothing of it is used
	web := fmt.Sprintf("127.0.0.1:%d", natstest.Reserve(t, 1)[0])
	m := s.daemon("zester-master", "--id", "own", "--data-dir", "master", "--listen", "127.0.0.1:0", "--rest-listen", web)
	m.waitFor("master is ready")
	peels := []target.PeelID{"web-01", "web-02", "db-01"}
	for _, id := range peels {
		s.daemon("zester-peel", "--id", string(id), "--data-dir", "peel-"+string(id), "--url", s.url(), "--creds", s.issue(grants.RolePeel, string(id))).waitFor("bus is reached")
	}
	c := s.client()
	for _, id := range peels {
		for ctx := s.ctx(); ; <-time.After(lookAgain) {
			if p, err := api.PeelShow.Ask(ctx, c, api.PeelRequest{Peel: id}); err == nil && p.Online {
				break
			} else if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	s.ready(web, http.StatusOK)
	js := s.streams()
	var accepted []wire.JID
	ask := func(function string, args map[string]any) error {
		spec := job.Spec{JID: wire.NewJID(), Function: function, Args: args, Targets: peels, TargetExpr: "*", Timeout: patience}
		_, err := api.JobDispatch.Ask(s.ctx(), c, spec)
		if err == nil {
			accepted = append(accepted, spec.JID)
		}
		return err
	}
	for range 10 {
		if err := ask("test.ping", nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // whose returns come while nothing can be stored
		if err := ask("test.sleep", map[string]any{"duration": "10s"}); err != nil {
			t.Fatal(err)
		}
	}

	s.mount("master", "160m", syscall.MS_REMOUNT)
	filler := filepath.Join(s.path("master"), "filler")
	fill(t, filler)
	if took := s.ready(web, http.StatusServiceUnavailable); took > time.Minute { // 10 s, on a machine that has nothing else to do
		t.Errorf("/readyz was red %v after the disk was full", took)
	} else {
		t.Logf("/readyz was red %v after the disk was full", took.Round(time.Millisecond))
	}
	// The server may have given some of the disk back since.
	if out := s.zester(1, "doctor"); !regexp.MustCompile(`broken   storage: the disk of (.*/)?master/bus has \d+ MiB free, which is less than 64 MiB`).MatchString(out) {
		t.Errorf("the doctor says\n%s", out)
	}
	if err := ask("test.ping", nil); err == nil || !strings.Contains(err.Error(), "MiB free") {
		t.Errorf("a job was asked for on a full disk: %v", err)
	}
	// The streams meet the end of the disk all the same, by what is written besides jobs.
	for stream, subject := range map[string]string{
		"KV_jobs": "$KV.jobs.filler", "KV_job-returns": "$KV.job-returns.filler", "job-events": wire.ScheduledOf("filler", "web-01"),
	} {
		for i := range 64 {
			if stream == "KV_job-returns" { // which takes one message for each subject
				subject = fmt.Sprintf("$KV.job-returns.filler.%d", i)
			}
			if err := js.Conn().Publish(subject, make([]byte, 32<<10)); err != nil {
				t.Fatal(err)
			}
		}
		for !m.wrote("Filestore [" + stream + "] Critical write error") {
			m.waitFor("Critical write error")
		}
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.ready(web, http.StatusOK)
	t.Logf("/readyz was green %v after there was room", time.Since(began).Round(time.Millisecond))
	for ctx := s.ctx(); ask("test.ping", nil) != nil; <-time.After(lookAgain) {
		if ctx.Err() != nil {
			t.Fatal("no job is accepted after there was room")
		}
	}
	t.Logf("a job was accepted %v after there was room", time.Since(began).Round(time.Millisecond))
	for _, jid := range accepted {
		s.final(c, jid)
		j, err := api.JobShow.Ask(s.ctx(), c, api.JobRequest{JID: jid})
		if err != nil || j.Status != job.Complete || j.ReturnCount != len(peels) {
			t.Errorf("%s was accepted: %+v, %v", jid, j, err)
		}
		for row, err := range c.Rows(s.ctx(), jid) {
			if err != nil || row.State != job.RowOK {
				t.Errorf("%s: %+v, %v", jid, row, err)
			}
		}
	}
	s.ready(web, http.StatusOK)
	s.zester(0, "doctor")
}

// final returns when a job has ended.
func (s *site) final(c *api.Client, jid wire.JID) {
	s.t.Helper()
	for ctx := s.ctx(); ; <-time.After(lookAgain) {
		j, err := api.JobShow.Ask(ctx, c, api.JobRequest{JID: jid})
		if err != nil {
			s.t.Fatal(err)
		}
		if j.Status.Final() {
			return
		}
	}
}
