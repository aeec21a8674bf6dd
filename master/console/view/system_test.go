package view_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/settings/status"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// TestACommitIsShownOnceItIsCompiled: in a large fleet the comparison of two revisions takes longer than the answers that
// only add to a page may take.
func TestACommitIsShownOnceItIsCompiled(t *testing.T) {
	compile := func(context.Context, *service.Call, status.CommitRequest) (*status.CommitChange, error) {
		time.Sleep(2 * time.Second)
		return &status.CommitChange{Commit: "4e1f9c7a0"}, nil
	}
	served(t, func(t *testing.T, ann api.Asker) {
		v := &view.Commit{Attempt: status.Attempt{Commit: "4e1f9c7a0"}}
		if v.AddChange(t.Context(), ann); v.Change.Value == nil {
			t.Error(v.Change.Error)
		}
	}, service.On(api.SyncCommit, compile))
}

// TestABusyMasterShowsWhatItKnows: while a master works on what is wrong now, it has no time for what else the page
// shows.
func TestABusyMasterShowsWhatItKnows(t *testing.T) {
	now := func(context.Context, *service.Call, api.None) (*api.Now, error) {
		time.Sleep(time.Second)
		return &api.Now{}, nil
	}
	history := func(context.Context, *service.Call, api.None) (*status.History, error) { return &status.History{}, nil }
	served(t, func(t *testing.T, ann api.Asker) {
		v, err := view.NowOf(t.Context(), ann)
		if err != nil || v.History.Value == nil {
			t.Errorf("%+v, %v", v, err)
		}
	}, service.On(api.NowShow, now), service.On(api.SyncHistory, history))
}

// served runs a test on a master that answers one request at a time.
func served(t *testing.T, test func(t *testing.T, ann api.Asker), verbs ...service.Verb) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() {
			_ = service.Serve(ctx, service.Options{
				Conn: b.Conn(t, grants.RoleMaster, "m1"), Lane: service.NewLane(1, 0),
				Verbs: verbs,
			})
		})
		t.Cleanup(func() { cancel(); serving.Wait() })
		time.Sleep(time.Second)

		creds, err := b.Keys.Creds(grants.RoleOperator, "ann", 0)
		if err != nil {
			t.Fatal(err)
		}
		ann, err := api.Connect(api.ClientOptions{URL: b.URL(), Creds: creds, Connect: []nats.Option{nats.InProcessServer(b)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ann.Close)
		test(t, ann)
	})
}
