package peel

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ErrReplaced is the error of [Peel.Run] after a value was received from Options.Replace: nothing runs, and the caller
// has to start the program that takes this one's place.
var ErrReplaced = errors.New("the peel has made room for another program")

const (
	replaceInterval = 100 * time.Millisecond // between two looks whether nothing runs
	replaceTell     = 10                     // looks before masters hear for what the next program waits
	replaceAgain    = 600                    // looks until they hear it again
	replaceHold     = time.Hour              // then entries that are due wait, so that such a moment comes
	replaceGiveUp   = 24 * time.Hour         // then the peel goes on as before

	versionTimeout = 10 * time.Second // for a program to print its version
	maxVersion     = 64               // bytes of it
)

// awaitReplace ends the run by leave, at a moment at which nothing runs, after each value of Options.Replace.
func (p *Peel) awaitReplace(ctx context.Context, leave context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case path := <-p.o.Replace:
			version := versionOf(ctx, path)
			p.log.Info("another program is installed: the peel starts it when no command runs", "version", version)
			p.untilIdle(ctx, path, version, leave)
		}
	}
}

func (p *Peel) untilIdle(ctx context.Context, path, version string, leave context.CancelCauseFunc) {
	tick := time.NewTicker(replaceInterval)
	defer tick.Stop()

	began := time.Now()
	held := false
	for looks := 0; ; looks++ {
		hold := time.Since(began) >= replaceHold
		if hold && !held {
			held = true
			p.log.Warn("commands have run for an hour without a break: due entries wait until the new program runs")
		}
		running, left := p.leaveIfIdle(ctx, hold, leave)
		if left {
			return
		}
		if looks%replaceAgain == replaceTell {
			version = cmp.Or(versionOf(ctx, path), version) // it says none while it is replaced
			p.tellUpgrade(ctx, version+" waits for "+waitsFor(running))
		}
		if time.Since(began) >= replaceGiveUp {
			p.log.Error("the new program was not started, as commands have run for a day: the entries that wait start")
			_ = p.sched.Loud(ctx) // fails only when the peel stops
			p.tellUpgrade(ctx, "")
			return
		}

		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// versionOf returns the version of the program at path, empty if it does not say one.
func versionOf(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, path, "--version")
	command.WaitDelay = time.Second // a child of it may keep its output open
	out, _ := command.Output()      // an error says nothing about the rest of it
	version, _, _ := strings.Cut(string(out), "\n")
	if len(version) > maxVersion {
		return ""
	}
	return version
}

// waitsFor returns what an upgrade waits for, in words.
func waitsFor(running int) string {
	switch running {
	case 0:
		return "a pause of the schedule"
	case 1:
		return "1 command"
	}
	return strconv.Itoa(running) + " commands"
}

// tellUpgrade changes the fact about an upgrade that waits; empty: none does.
func (p *Peel) tellUpgrade(ctx context.Context, text string) {
	p.newest.upgrade.Store(&text)
	if changed, _ := p.collect(ctx); changed { // fails only when the peel stops
		p.due.facts.raise()
	}
}

// leaveIfIdle calls leave if no request and no entry runs, and reports whether that was so. None begins after that.
// Otherwise running is the number of requests and entries that run.
func (p *Peel) leaveIfIdle(ctx context.Context, hold bool, leave context.CancelCauseFunc) (running int, left bool) {
	p.receiving.Lock()
	defer p.receiving.Unlock()
	running, idle, err := p.sched.Quiet(ctx, hold, p.pending.count())
	if err != nil || !idle {
		return running, false
	}
	leave(ErrReplaced)
	return 0, true
}
