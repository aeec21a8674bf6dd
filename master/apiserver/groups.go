package apiserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	groupIDBytes    = 8 // of a digest
	groupLineBytes  = 4 << 10
	groupLinesBytes = 64 << 10 // of all lines of a reply
	groupingsAtOnce = 2        // of a master: each reads up to 10,240 returns of 1 MiB
)

// JobGroups returns what the targets of a job returned, equal results together. Few requests are answered at once; the
// others wait.
func (s *Server) JobGroups(ctx context.Context, from grants.Caller,
	q api.ReturnGroupsRequest,
) (reply *api.ReturnGroups, err error) {
	waited := s.groupings.Do(ctx, func() { reply, err = s.jobGroups(ctx, from, q) })
	return reply, cmp.Or(waited, err)
}

// jobGroups lets go of each page of returns before it reads the next one.
func (s *Server) jobGroups(ctx context.Context, from grants.Caller,
	q api.ReturnGroupsRequest,
) (*api.ReturnGroups, error) {
	if _, err := s.JobShow(ctx, from, api.JobRequest{JID: q.JID}); err != nil {
		return nil, err
	}
	found := newGrouping(q)
	reply := &api.ReturnGroups{}
	for rows := (api.JobRequest{JID: q.JID}); ; {
		page, err := s.returns(ctx, rows)
		if err != nil {
			return nil, err
		}

		reply.Job = page.Job
		reply.Rows += len(page.Rows)
		for _, r := range page.Rows {
			found.add(r)
		}

		rows.Cursor = page.Next
		if reply.More = page.Next != ""; !reply.More || reply.Rows >= api.MaxGroupedOf {
			break
		}
	}
	reply.Groups, reply.Left = found.shown()
	return reply, nil
}

// grouping puts equal results together. It holds lines of at most 2*[api.MaxReturnGroups] groups, and of each no more
// than a reply has.
type grouping struct {
	q        api.ReturnGroupsRequest
	byDigest map[[sha256.Size]byte]*api.ReturnGroup
	all      []*api.ReturnGroup // in the order of their first rows
	held     int                // groups with lines
}

func newGrouping(q api.ReturnGroupsRequest) *grouping {
	return &grouping{q: q, byDigest: map[[sha256.Size]byte]*api.ReturnGroup{}}
}

func (g *grouping) add(r job.Row) {
	lines := linesOf(r)
	digest := digestOf(r.State, lines)
	id := hex.EncodeToString(digest[:groupIDBytes])
	if g.q.Group != "" && g.q.Group != id {
		return
	}

	group, known := g.byDigest[digest]
	if !known {
		group = &api.ReturnGroup{ID: id, State: r.State, Total: len(lines)}
		if g.q.Group != "" {
			group.From = min(max(0, g.q.From), group.Total)
		}
		g.byDigest[digest] = group
		g.all = append(g.all, group)
	}

	group.Count++
	if len(group.Peels) < api.MaxGroupPeels {
		group.Peels = append(group.Peels, r.Peel)
	}
	if group.Lines != nil || group.From == group.Total {
		return
	}

	group.Lines = firstLines(lines[group.From:])
	g.held++
	if g.held > 2*api.MaxReturnGroups {
		g.release()
	}
}

// release lets go the lines of all groups that the reply would leave out now. Such a group can only come into the reply
// by a further row, which has its lines again.
func (g *grouping) release() {
	for _, group := range g.ranked()[api.MaxReturnGroups:] {
		group.Lines = nil
	}

	g.held = 0
	for _, group := range g.all {
		if group.Lines != nil {
			g.held++
		}
	}
}

// ranked returns the groups in the order of a reply: failures first, then those with more rows.
func (g *grouping) ranked() []*api.ReturnGroup {
	ranked := slices.Clone(g.all)
	sorting.Stable(ranked, func(a, b *api.ReturnGroup) int {
		switch {
		case failed(a.State) == failed(b.State):
			return b.Count - a.Count
		case failed(a.State):
			return -1
		}
		return 1
	})
	return ranked
}

// shown returns the groups and lines of the reply, and how many groups it leaves out.
func (g *grouping) shown() (all []api.ReturnGroup, left int) {
	ranked := g.ranked()
	if left = max(0, len(ranked)-api.MaxReturnGroups); left > 0 {
		ranked = ranked[:api.MaxReturnGroups]
	}

	all = []api.ReturnGroup{}
	lines, bytes := api.MaxGroupLines, groupLinesBytes
	for _, group := range ranked {
		fit := fitting(group.Lines, lines, bytes)
		group.Lines = group.Lines[:fit]
		lines -= fit
		for _, line := range group.Lines {
			bytes -= len(line)
		}
		all = append(all, *group)
	}
	return all, left
}

func failed(s job.RowState) bool { return s != job.RowOK && s != job.RowWaiting }

// digestOf returns what equal results have in common.
func digestOf(state job.RowState, lines []string) (digest [sha256.Size]byte) {
	h := sha256.New()
	_, _ = io.WriteString(h, string(state)) // a hash returns no error
	for _, line := range lines {
		_, _ = io.WriteString(h, "\n"+line)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// firstLines returns copies of the first lines, as many as a reply may have. Long lines are cut.
func firstLines(lines []string) []string {
	var first []string
	for _, line := range lines[:min(api.MaxGroupLines, len(lines))] {
		first = append(first, strings.Clone(audit.Bounded(line, groupLineBytes))) // a part would hold the whole result
	}
	return slices.Clone(first[:fitting(first, len(first), groupLinesBytes)])
}

// fitting returns how many of the first lines fit into a number of lines and of bytes.
func fitting(lines []string, most, bytes int) int {
	most = min(most, len(lines))
	for i, line := range lines[:most] {
		if bytes -= len(line); bytes < 0 {
			return i
		}
	}
	return most
}

// linesOf returns what a target returned, as lines: its error, and its data.
func linesOf(r job.Row) (lines []string) {
	if r.Return == nil {
		return nil
	}
	if r.Return.Error != "" {
		lines = strings.Split(r.Return.Error, "\n")
	}
	switch data := r.Return.Data.(type) {
	case nil:
	case string:
		lines = append(lines, strings.Split(strings.TrimRight(data, "\n"), "\n")...)
	default:
		text, err := json.MarshalIndent(data, "", "  ")
		if err == nil {
			lines = append(lines, strings.Split(string(text), "\n")...)
		}
	}
	return lines
}
