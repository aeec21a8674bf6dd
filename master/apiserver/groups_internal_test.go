package apiserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// returned gives the row of a target that returned text.
func returned(peel string, state job.RowState, text string) job.Row {
	return job.Row{Peel: target.PeelID(peel), State: state, Return: &wire.Return{Result: wire.Result{Data: text}}}
}

func TestEqualResultsAreOneGroup(t *testing.T) {
	var g grouping
	for i := range 30 {
		g.add(returned(fmt.Sprintf("web-%02d", i), job.RowOK, "done\n"))
	}
	g.add(returned("db-01", job.RowFailed, "no space"))
	g.add(job.Row{Peel: "db-02", State: job.RowWaiting})

	all, left := g.shown(api.ReturnGroupsRequest{})
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
	var g grouping
	for i := range 120 {
		g.add(returned(fmt.Sprintf("web-%03d", i), job.RowOK, strings.Repeat(fmt.Sprintln("line", i), 8)))
	}
	all, left := g.shown(api.ReturnGroupsRequest{})
	lines := 0
	for _, group := range all {
		lines += len(group.Lines)
	}
	if len(all) != api.MaxReturnGroups || left != 20 || lines != api.MaxGroupLines {
		t.Errorf("%d groups with %d lines, %d left", len(all), lines, left)
	}

	g = grouping{}
	g.add(returned("web-01", job.RowOK, strings.Repeat("é", 1<<20)+"\nend"))
	all, _ = g.shown(api.ReturnGroupsRequest{})
	if len(all) != 1 || len(all[0].Lines) != 2 || len(all[0].Lines[0]) > groupLineBytes+len("…") {
		t.Errorf("a line of 2 MiB: %d lines", len(all[0].Lines))
	}
	all, _ = g.shown(api.ReturnGroupsRequest{Group: all[0].ID, From: 1})
	if len(all) != 1 || len(all[0].Lines) != 1 || all[0].Lines[0] != "end" || all[0].Total != 2 {
		t.Errorf("from line 1: %+v", all)
	}
	if all, _ = g.shown(api.ReturnGroupsRequest{Group: "none"}); len(all) != 0 {
		t.Errorf("a group that is not there: %+v", all)
	}
}
