package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

const (
	renewWait   = 2 * time.Second // for a master to renew a login; a command begins after it
	renewPause  = 5 * time.Minute // between two tries, also of two commands
	triedSuffix = ".tried"        // of an empty file beside the credential, whose time is when a command tried last
)

// keepLogin renews a login that is due, and again and again while a command runs. Only the first try says why it fails:
// what ends a command that runs for longer than the login is an error of the command.
func (a *app) keepLogin(client *api.Client) (stop func()) {
	a.renewLogin(context.Background(), client)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		silent := &app{errOut: io.Discard, connect: a.connect}
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(renewPause):
				silent.renewLogin(ctx, client)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// renewLogin renews the credential of zester login if less than half of its time is left. If that fails it says so, and
// the command goes on with the old one. The last one of a login is shorter than the others, and nothing renews it.
func (a *app) renewLogin(ctx context.Context, client *api.Client) {
	if a.connect.login == "" {
		return
	}
	file := a.connect.creds
	text, err := os.ReadFile(file)
	if err != nil {
		return // the command has read it before
	}
	own, err := credential.ReadOwn(text)
	if err != nil || own.Expires.Sub(own.Issued) < credential.LoginLife-time.Minute ||
		time.Until(own.Expires) > credential.LoginLife/2 {
		return
	}

	isTurn, err := takeTurn(file + triedSuffix)
	if isTurn {
		ctx, cancel := context.WithTimeout(ctx, renewWait)
		defer cancel()
		_, err = renewFile(ctx, client, file)
	}
	if err != nil {
		fmt.Fprintf(a.errOut, "the login of %s ends at %s and is not renewed: %s\n", plain(own.Name), when(own.Expires),
			plain(err.Error()))
	}
}

// takeTurn reports whether this command is to renew a login: no other has tried for a while. The time of the try is on
// the disk before the try, so masters that do not answer cost one command its wait, and not each. Of two commands at
// once both may try; masters renew a key as often as its owner asks.
func takeTurn(file string) (bool, error) {
	now := time.Now()
	info, err := os.Stat(file)
	if err == nil && now.Sub(info.ModTime()).Abs() < renewPause {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return false, err
	}
	err = os.Chtimes(file, now, now)
	return err == nil, err
}
