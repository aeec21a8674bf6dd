package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	factsGet    = "$JS.API.DIRECT.GET.facts"
	factsAtOnce = 256
)

// ResolveAlone does the same as [Client.Resolve] without a master: it evaluates the expression in this process, with
// the newest facts of each peel in the stream facts. It knows no node groups and no settings, and not which peels are
// online.
func (c *Client) ResolveAlone(ctx context.Context, expr string) (*TargetsPage, error) {
	e, err := target.Parse(expr, target.Options{})
	if err == nil && e.UsesSettings() {
		err = errors.New("the settings of peels are read by masters")
	}
	if err != nil {
		return nil, fail(CodeInvalid, err, "cannot resolve %q without a master", expr)
	}
	ctx, cancel := within(ctx, answerWait)
	defer cancel()
	r, known := &TargetsPage{}, map[target.PeelID]bool{}
	err = c.readFacts(ctx, func(f wire.Facts) {
		known[f.Peel] = true
		if e.Match(target.Peel{ID: f.Peel, Facts: f.Facts}) {
			r.Peels = append(r.Peels, f.Peel)
		}
	})
	if err != nil {
		return nil, requestError(factsGet, err)
	}
	slices.Sort(r.Peels)
	r.Total = len(r.Peels)
	r.Unknown = slices.DeleteFunc(e.Lists(), func(id target.PeelID) bool { return known[id] })
	return r, nil
}

// readFacts calls got for the newest facts of each peel, in the order of the stream.
func (c *Client) readFacts(ctx context.Context, got func(wire.Facts)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.denials.watch(factsGet, cancel)()
	for from, more := uint64(1), true; more; {
		last, left, err := c.factsFrom(ctx, from, got)
		if cause := context.Cause(ctx); errors.Is(cause, nats.ErrPermissionViolation) {
			return cause
		}
		if err != nil {
			return err
		}
		from, more = last+1, left && last >= from
	}
	return nil
}

// factsFrom reads one batch of the server, and returns the sequence of its last message and whether more follow.
func (c *Client) factsFrom(ctx context.Context, from uint64, got func(wire.Facts)) (last uint64, more bool, err error) {
	question, err := json.Marshal(map[string]any{"seq": from, "next_by_subj": wire.Fact("*"), "batch": factsAtOnce})
	if err != nil {
		return 0, false, err
	}
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest(factsGet, inbox, question); err != nil {
		return 0, false, err
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return last, false, err
		}
		// A peel may have set any header. Those of the server come after them.
		if subject := lastOf(msg.Header, "Nats-Subject"); subject != "" {
			if last, err = strconv.ParseUint(lastOf(msg.Header, "Nats-Sequence"), 10, 64); err != nil {
				return last, false, fmt.Errorf("cannot read the facts of %s: %w", subject, err)
			}
			if f, err := wire.DecodeFacts(&nats.Msg{Subject: subject, Data: msg.Data}); err == nil {
				got(f)
			}
			continue
		}
		switch status := msg.Header.Get("Status"); status {
		case "204":
			return last, msg.Header.Get("Nats-Num-Pending") != "0", nil
		case "404":
			return last, false, nil
		case "503":
			return last, false, nats.ErrNoResponders
		default:
			return last, false, fmt.Errorf("the bus answers %s %s", status, msg.Header.Get("Description"))
		}
	}
}

func lastOf(h nats.Header, key string) string {
	values := h[key]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
