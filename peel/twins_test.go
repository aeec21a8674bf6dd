package peel_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
)

func TestMastersFindTwoHostsWithOnePeelID(t *testing.T) {
	run(t, func(b *bench) {
		fleet := fleet.New(b.bus.Conn(b.t, grants.RoleMaster, "m2"), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(b.t.Context())
		done := make(chan error, 1)
		go func() { done <- fleet.Run(ctx) }()
		defer func() { cancel(); <-done }()
		b.start()
		time.Sleep(time.Hour)
		b.stop() // and starts again, as the same host
		b.start()
		time.Sleep(time.Hour)
		if fleet.Duplicate(id) {
			t.Error("one host is two")
		}
		first := b.stop
		b.dir = filepath.Join(b.dir, "twin")
		b.start()
		time.Sleep(100 * time.Second)
		if !fleet.Duplicate(id) {
			t.Error("the other host was not found")
		}
		second := b.stop
		first()
		b.stop = second
		time.Sleep(time.Hour)
		if fleet.Duplicate(id) {
			t.Error("one of two hosts was stopped")
		}
	})
}
