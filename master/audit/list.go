package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
)

const (
	pageDefault = 50
	pageMost    = 500
	lookAt      = 2000 // entries that are read for one page
	readAtOnce  = 256
	readWait    = 5 * time.Second
	pageBytes   = 900 << 10 // of a page as it is stored: with the entry that exceeds them it fits into a message
)

func limitOf(q *Query) int {
	if q.Limit <= 0 {
		return pageDefault
	}
	return min(q.Limit, pageMost)
}

func matches(q *Query, e *Entry) bool {
	noun, _, _ := strings.Cut(e.Action, ".")
	return (q.User == "" || e.User == q.User) &&
		(q.Action == "" || e.Action == q.Action || noun == q.Action) &&
		(strings.Contains(e.Target, q.Target) || slices.Contains(e.Peels, q.Target)) &&
		(q.Result == "" || e.Result == q.Result) &&
		!(q.NoLogins && e.Result == Done && (e.Action == "session.create" || e.Action == "session.begin")) &&
		(q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || e.Time.Before(q.Until))
}

// List returns a page of entries.
func (l *Log) List(ctx context.Context, q Query) (*Page, error) {
	page, err := l.list(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("cannot read the audit log: %w", err)
	}
	return page, nil
}

func (l *Log) list(ctx context.Context, q Query) (*Page, error) {
	s, err := l.js.Stream(ctx, wire.StreamAudit)
	if err != nil {
		return nil, err
	}
	state := s.CachedInfo().State
	if q.Lines {
		return l.lines(ctx, q, state.FirstSeq, state.LastSeq)
	}
	if q.Follow || q.After > 0 {
		first := max(q.After+1, state.FirstSeq)
		last := min(state.LastSeq, first+lookAt-1)
		page := &Page{Entries: []Entry{}, Next: max(q.After, last)}
		bytes := 0
		err := l.readLines(ctx, first, last, func(line Line) bool {
			if e := line.Entry(); matches(&q, &e) {
				page.Entries = append(page.Entries, e)
				bytes += len(line.Text)
			}
			page.Next = line.Seq
			return len(page.Entries) < limitOf(&q) && bytes < pageBytes
		})
		page.More = page.Next < state.LastSeq
		return page, err
	}
	last := state.LastSeq
	if q.Before > 0 {
		last = min(last, q.Before-1)
	}
	if last == 0 || last < state.FirstSeq {
		return &Page{Entries: []Entry{}}, nil
	}
	first := max(state.FirstSeq, last-min(last, lookAt)+1)
	page := &Page{Entries: []Entry{}, Next: first, More: first > state.FirstSeq}
	var sizes []int
	err = l.readLines(ctx, first, last, func(line Line) bool {
		if e := line.Entry(); matches(&q, &e) {
			page.Entries = append(page.Entries, e)
			sizes = append(sizes, len(line.Text))
		}
		return true
	})
	slices.Reverse(page.Entries)
	slices.Reverse(sizes)
	n := 0
	for bytes := 0; n < min(len(sizes), limitOf(&q)) && bytes < pageBytes; n++ {
		bytes += sizes[n]
	}
	if n < len(page.Entries) {
		page.Entries = page.Entries[:n]
		page.Next, page.More = page.Entries[n-1].Seq, true
	}
	return page, err
}

// readLines calls take for the lines with these places, in their order, until it returns false.
func (l *Log) readLines(ctx context.Context, first, last uint64, take func(Line) bool) error {
	if first > last {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	return bucket.Drain(ctx, l.js, wire.StreamAudit, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first, MaxRequestBatch: readAtOnce,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (more bool) {
		seq := meta.Sequence.Stream
		return seq <= last && take(Line{Seq: seq, Text: string(m.Data())}) && seq < last
	})
}

// lines returns a page of lines.
func (l *Log) lines(ctx context.Context, q Query, first, last uint64) (*Page, error) {
	page := &Page{Entries: []Entry{}, First: first, Next: q.After}
	bytes := 0
	err := l.readLines(ctx, max(q.After+1, first), last, func(line Line) bool {
		page.Lines, page.Next = append(page.Lines, line), line.Seq
		bytes += len(line.Text)
		return len(page.Lines) < pageMost && bytes < pageBytes
	})
	page.More = page.Next < last
	return page, err
}
