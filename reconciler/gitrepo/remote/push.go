package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// The services of a Git server.
const (
	fetching = "git-upload-pack"
	pushing  = "git-receive-pack"
)

const maxReport = 1 << 20 // bytes of a server's answer to a push

// An Update moves one reference from Old to New. The zero Old creates it. Pack holds the objects that the server lacks.
type Update struct {
	Ref      plumbing.ReferenceName
	Old, New plumbing.Hash
	Pack     []byte
}

// Push sends an update. The server makes it only if the reference is still at Old: else the Reason of the error is
// RefMoved. It is Declined if the server refuses the update, such as one of a protected branch. After another error the
// server may have made the update or not: resolve the reference to know.
func (r *Remote) Push(ctx context.Context, limit time.Duration, u Update) error {
	return r.bounded(ctx, limit, func(ctx context.Context) error { return r.source.push(ctx, u) })
}

// receivePack sends an update in one round trip: send sends the request to git-receive-pack and returns its response.
func receivePack(refs *packp.AdvRefs, u Update, send func([]byte) (io.ReadCloser, error)) error {
	if at := refs.References[u.Ref.String()]; at != u.Old {
		return fail(RefMoved, "branch %q is at %s, no longer at %s", u.Ref.Short(), at, u.Old)
	}
	if !refs.Capabilities.Supports(capability.ReportStatus) {
		return fail(RemoteFailed, "the server does not report whether it accepts a push")
	}
	req := packp.NewReferenceUpdateRequest()
	for _, c := range []capability.Capability{capability.ReportStatus, capability.Sideband64k} {
		if refs.Capabilities.Supports(c) {
			if err := req.Capabilities.Set(c); err != nil {
				return err
			}
		}
	}
	req.Commands = []*packp.Command{{Name: u.Ref, Old: u.Old, New: u.New}}
	req.Packfile = io.NopCloser(bytes.NewReader(u.Pack))
	var body bytes.Buffer
	if err := req.Encode(&body); err != nil {
		return err
	}
	answer, err := send(body.Bytes())
	if err != nil {
		return err
	}
	defer answer.Close()
	return readReport(req.Capabilities, io.LimitReader(answer, maxReport))
}

// readReport reads the answer of git-receive-pack.
func readReport(caps *capability.List, answer io.Reader) error {
	var kept limited // what a hook of the server says, which may be why it refuses
	if caps.Supports(capability.Sideband64k) {
		d := sideband.NewDemuxer(sideband.Sideband64k, answer)
		d.Progress = &kept
		answer = d
	}
	report := packp.NewReportStatus()
	if err := report.Decode(answer); err != nil {
		return err
	}
	if report.UnpackStatus != "ok" {
		return fail(RemoteFailed, "the server cannot unpack the commit: %s", report.UnpackStatus)
	}
	if len(report.CommandStatuses) != 1 {
		return fail(RemoteFailed, "the server reports on %d references, and not on one", len(report.CommandStatuses))
	}
	status := report.CommandStatuses[0].Status
	if status == "ok" {
		return nil
	}
	if moved(status) {
		return fail(RefMoved, "the branch moved meanwhile: %s", status)
	}
	return fail(Declined, "the server refuses the push: %s", withReason(status, kept.String()))
}

// moved reports whether a status says that another push was faster.
func moved(status string) bool {
	for _, part := range []string{
		"fetch first", "non-fast-forward", "stale info", "failed to lock", "cannot lock ref", "failed to update ref",
		"incorrect old value", "already exists", "reference already",
	} {
		if strings.Contains(status, part) {
			return true
		}
	}
	return false
}

// withReason joins a status and the first line that the server sent beside it.
func withReason(status, said string) string {
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" {
			return fmt.Sprintf("%s (%s)", status, line)
		}
	}
	return status
}

// IsUncertain reports whether after an error of [Remote.Push] the server may have made the update.
func IsUncertain(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return !ok || e.Reason == Timeout || e.Reason == RemoteFailed || e.Reason == Unreachable
}
