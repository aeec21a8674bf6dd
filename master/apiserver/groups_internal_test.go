package apiserver

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// returned gives the row of a target that returned text.
func returned(peel string, state job.RowState, text string) job.Row {
	return job.Row{Peel: target.PeelID(peel), State: state, Return: &wire.Return{Result: wire.Result{Data: text}}}
}

func TestEqualResultsAreOneGroup(t *testing.T) {
	g := newGrouping(api.ReturnGroupsRequest{})
	for i := range 30 {
		g.add(returned(fmt.Sprintf("web-%02d", i), job.RowOK, "done\n"))
	}
	g.add(returned("db-01", job.RowFailed, "no space"))
	g.add(job.Row{Peel: "db-02", State: job.RowWaiting})

	all, left := g.shown()
	if len(all) != 3 || left != 0 {
		t.Fatalf("%d groups, %d left: %+v", len(all), left, all)
	}
	if all[0].State != job.RowFailed || all[0].Count != 1 {
		t.Errorf("the failure is not first: %+v", all[0])
	}
	if g := all[1]; g.Count != 30 || len(g.Peels) != api.MaxGroupPeels || len(g.Lines) != 1 || g.Lines[0] != "done" {
		t.Errorf("%+v", g)
	}
}

func TestGroupsHaveABoundedNumberOfLinesAndBytes(t *testing.T) {
	g := newGrouping(api.ReturnGroupsRequest{})
	for i := range 120 {
		g.add(returned(fmt.Sprintf("web-%03d", i), job.RowOK, strings.Repeat(fmt.Sprintln("line", i), 8)))
	}
	all, left := g.shown()
	lines := 0
	for _, group := range all {
		lines += len(group.Lines)
	}
	if len(all) != api.MaxReturnGroups || left != 20 || lines != api.MaxGroupLines {
		t.Errorf("%d groups with %d lines, %d left", len(all), lines, left)
	}

	long := returned("web-01", job.RowOK, strings.Repeat("é", 1<<20)+"\nend")
	of := func(q api.ReturnGroupsRequest) []api.ReturnGroup {
		g := newGrouping(q)
		g.add(long)
		all, _ := g.shown()
		return all
	}
	all = of(api.ReturnGroupsRequest{})
	if len(all) != 1 || len(all[0].Lines) != 2 || len(all[0].Lines[0]) > groupLineBytes+len("…") {
		t.Errorf("a line of 2 MiB: %d lines", len(all[0].Lines))
	}
	all = of(api.ReturnGroupsRequest{Group: all[0].ID, From: 1})
	if len(all) != 1 || len(all[0].Lines) != 1 || all[0].Lines[0] != "end" || all[0].Total != 2 || all[0].From != 1 {
		t.Errorf("from line 1: %+v", all)
	}
	if all = of(api.ReturnGroupsRequest{Group: "none"}); len(all) != 0 {
		t.Errorf("a group that is not there: %+v", all)
	}
}

// TestGroupingHoldsLittle gives 1,000 different returns of 256 KiB, most of which the reply leaves out.
func TestGroupingHoldsLittle(t *testing.T) {
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	g := newGrouping(api.ReturnGroupsRequest{})
	text := strings.Repeat(strings.Repeat("x", 1024)+"\n", 256)
	for i := range 1000 {
		g.add(returned(fmt.Sprintf("web-%04d", i), job.RowOK, fmt.Sprintf("%03d", i)+text))
	}
	const most = (2*api.MaxReturnGroups + 1) * groupLinesBytes
	if held := int64(memory()) - int64(before); held > most+1<<20 {
		t.Errorf("%d MiB are held, want %d at most", held>>20, most>>20)
	}
	for range 2 { // the last group becomes the largest, and has its lines
		g.add(returned("db-01", job.RowOK, "999"+text))
	}
	all, left := g.shown()
	if left != 900 || all[0].Count != 3 || all[0].Total != 256 || len(all[0].Lines) != 63 ||
		!strings.HasPrefix(all[0].Lines[0], "999x") {
		t.Errorf("%d groups left, the first is %d times %d of %d lines", left, all[0].Count, len(all[0].Lines), all[0].Total)
	}
}

// TestFewJobsAreGroupedAtOnce lets a third request wait. It would panic, as the server has no store.
func TestFewJobsAreGroupedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{groupings: service.NewLane(groupingsAtOnce, answerQueue)}
		end := make(chan struct{})
		for range groupingsAtOnce {
			go func() { _ = s.groupings.Do(context.Background(), func() { <-end }) }()
		}
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.JobGroups(ctx, grants.Caller{}, api.ReturnGroupsRequest{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third request: %v", err)
		}
		close(end)
	})
}
