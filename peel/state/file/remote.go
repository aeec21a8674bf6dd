//go:build linux

package file

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-c01c3da5/zester/peel/state/download"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// planRemote plans a file whose content comes from https. A file that has the SHA-256 is not downloaded, so a test
// needs no network.
func (f *wanted) planRemote(w *host.World, info safefs.Info, mode uint32) ([]host.Step, error) {
	want := f.attributes.over(info, mode)
	if info.Kind == safefs.File {
		sum, err := w.Sum(f.path)
		if err != nil {
			return nil, err
		}
		if sum == f.sum {
			return f.ownership(w, info, want), nil
		}
	} else if err := mayOwn(w, f.path, want); err != nil {
		return nil, err
	}
	change := host.Change{
		Do:     "write",
		What:   f.path,
		Before: describe(info),
		After:  fmt.Sprintf("SHA-256 %.12s…, %04o", f.sum, want.Mode),
	}
	if info.Kind == safefs.Absent {
		change.Do = "create"
	}
	return []host.Step{{
		Change: change,
		Apply:  func(ctx context.Context) error { return f.write(ctx, w, want) },
		Predict: func(w *host.World) {
			w.SetSum(f.path, safefs.Info{Kind: safefs.File, Mode: want.Mode, UID: want.UID, GID: want.GID}, f.sum)
		},
	}}, nil
}

// fill writes the wanted content.
func (f *wanted) fill(ctx context.Context, to io.Writer) error {
	if f.sum != "" {
		return download.Get(ctx, f.source, f.sum, to)
	}
	_, err := to.Write(f.content)
	return err
}
