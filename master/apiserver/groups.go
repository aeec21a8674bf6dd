package apiserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	groupIDBytes    = 8 // of a digest
	groupLineBytes  = 4 << 10
	groupLinesBytes = 64 << 10 // of all lines of a reply
)

// JobGroups returns what the targets of a job returned, equal results together.
func (s *Server) JobGroups(ctx context.Context, q api.ReturnGroupsRequest) (*api.ReturnGroups, error) {
	var found grouping
	reply := &api.ReturnGroups{}
	for rows := (api.JobRequest{JID: q.JID}); ; {
		page, err := s.JobReturns(ctx, rows)
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
	reply.Groups, reply.Left = found.shown(q)
	return reply, nil
}

// grouping puts equal results together.
type grouping struct {
	byText map[string]int    // index in all
	all    []api.ReturnGroup // with all lines
}

func (g *grouping) add(r job.Row) {
	lines := linesOf(r)
	key := string(r.State) + "\x00" + strings.Join(lines, "\n")
	at, known := g.byText[key]
	if !known {
		if g.byText == nil {
			g.byText = map[string]int{}
		}
		at = len(g.all)
		g.byText[key] = at
		sum := sha256.Sum256([]byte(key))
		id := hex.EncodeToString(sum[:groupIDBytes])
		g.all = append(g.all, api.ReturnGroup{ID: id, State: r.State, Lines: lines, Total: len(lines)})
	}

	group := &g.all[at]
	group.Count++
	if len(group.Peels) < api.MaxGroupPeels {
		group.Peels = append(group.Peels, r.Peel)
	}
}

// shown returns the groups and lines that a request asks for, and how many groups it leaves out. Failures are first,
// then larger groups.
func (g *grouping) shown(q api.ReturnGroupsRequest) (all []api.ReturnGroup, left int) {
	all = append([]api.ReturnGroup{}, g.all...)
	if q.Group != "" {
		all = slices.DeleteFunc(all, func(group api.ReturnGroup) bool { return group.ID != q.Group })
	}
	sorting.Stable(all, func(a, b api.ReturnGroup) int {
		switch {
		case failed(a.State) == failed(b.State):
			return b.Count - a.Count
		case failed(a.State):
			return -1
		}
		return 1
	})
	if left = max(0, len(all)-api.MaxReturnGroups); left > 0 {
		all = all[:api.MaxReturnGroups]
	}

	lines, bytes := api.MaxGroupLines, groupLinesBytes
	for i := range all {
		group := &all[i]
		if q.Group != "" {
			group.From = min(max(0, q.From), group.Total)
		}
		group.Lines = fittingLines(group.Lines[group.From:], lines, bytes)
		lines -= len(group.Lines)
		for _, line := range group.Lines {
			bytes -= len(line)
		}
	}
	return all, left
}

func failed(s job.RowState) bool { return s != job.RowOK && s != job.RowWaiting }

// fittingLines returns the first lines that fit into a number of lines and of bytes. Long lines are cut.
func fittingLines(lines []string, most, bytes int) (fit []string) {
	for _, line := range lines[:min(most, len(lines))] {
		if len(line) > groupLineBytes {
			cut := groupLineBytes
			for !utf8.RuneStart(line[cut]) {
				cut--
			}
			line = line[:cut] + "…"
		}
		if bytes -= len(line); bytes < 0 {
			return fit
		}
		fit = append(fit, line)
	}
	return fit
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
