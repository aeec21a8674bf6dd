package peel

import (
	"context"
	"errors"
	"time"
)

// ErrReplaced is the error of [Peel.Run] after a value was received from Options.Replace: nothing runs, and the caller
// has to start the program that takes this one's place.
var ErrReplaced = errors.New("the peel has made room for another program")

const (
	replaceInterval = 100 * time.Millisecond // between two looks whether nothing runs
	replaceHold     = time.Hour              // then entries that are due wait, so that such a moment comes
	replaceGiveUp   = 24 * time.Hour         // then the peel goes on as before
)

// awaitReplace ends the run by leave, at a moment at which nothing runs, after each value of Options.Replace.
func (p *Peel) awaitReplace(ctx context.Context, leave context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.o.Replace:
			p.log.Info("another program is installed: the peel starts it when no command runs")
			p.untilIdle(ctx, leave)
		}
	}
}

func (p *Peel) untilIdle(ctx context.Context, leave context.CancelCauseFunc) {
	tick := time.NewTicker(replaceInterval)
	defer tick.Stop()

	began := time.Now()
	held := false
	for {
		hold := time.Since(began) >= replaceHold
		if hold && !held {
			held = true
			p.log.Warn("commands have run for an hour without a break: due entries wait until the new program runs")
		}
		if p.leaveIfIdle(ctx, hold, leave) {
			return
		}
		if time.Since(began) >= replaceGiveUp {
			p.log.Error("the new program was not started, as commands have run for a day: the entries that wait start")
			_ = p.sched.Loud(ctx) // fails only when the peel stops
			return
		}

		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// leaveIfIdle calls leave if no request and no entry runs. None begins after that.
func (p *Peel) leaveIfIdle(ctx context.Context, hold bool, leave context.CancelCauseFunc) bool {
	p.receiving.Lock()
	defer p.receiving.Unlock()
	if !hold && !p.pending.empty() {
		return false
	}

	idle, err := p.sched.Quiet(ctx, hold)
	if err != nil || !idle || !p.pending.empty() {
		return false
	}
	leave(ErrReplaced)
	return true
}
