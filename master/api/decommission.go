package api

import (
	"context"
	"path"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Decommissioned is what became of a peel that was removed for good.
type Decommissioned struct {
	Peel    target.PeelID `json:"peel"`
	Revoked bool          `json:"revoked"` // false: the masters know no credential of the peel
	Removed bool          `json:"removed"` // false: the masters had no facts and no settings of the peel
	status.Naming
	// JoinTokens are the names of the tokens with which a host of this ID can still join.
	JoinTokens []string `json:"join_tokens"`
}

// WipeAnswer is how long a peel has to answer that it ends its schedule and deletes its data.
const WipeAnswer = 30 * time.Second

// WipeJob is the job that has a peel end its schedule and delete its data, before [Decommission].
func WipeJob(jid wire.JID, id target.PeelID) job.Spec {
	return job.Spec{
		JID: jid, TargetExpr: string(id), Targets: []target.PeelID{id}, Function: catalogue.Wipe,
		Args: map[string]any{"peel": string(id)}, Timeout: WipeAnswer,
	}
}

// Decommission revokes the credential of a peel, and then removes its data: a peel with a valid credential would
// publish its facts again. With an error the result says how far it came; nil: nothing was done.
func Decommission(ctx context.Context, by Asker, id target.PeelID) (*Decommissioned, error) {
	d := &Decommissioned{Peel: id, JoinTokens: []string{}}
	var err error
	if d.Revoked, err = revokePeel(ctx, by, id); err != nil {
		return nil, err
	}
	switch r, err := SyncRemove.Ask(ctx, by, status.RemoveRequest{Peel: id, Force: true}); {
	case err == nil:
		d.Removed = true
		d.Naming = r.Naming
	case CodeOf(err) != CodeNotFound:
		return d, err
	case !d.Revoked:
		return nil, err
	}
	tokens, err := JoinList.Ask(ctx, by, None{})
	if err != nil {
		return d, err
	}
	for _, t := range tokens.Tokens {
		if fits, _ := path.Match(t.Peel, string(id)); fits && t.Uses > 0 {
			d.JoinTokens = append(d.JoinTokens, t.Name)
		}
	}
	return d, nil
}

// revokePeel revokes the credential of a peel, or rejects its key that waits for approval. It returns false if there is
// neither.
func revokePeel(ctx context.Context, by Asker, id target.PeelID) (bool, error) {
	_, err := EnrollRevoke.Ask(ctx, by, EnrollName{ID: id})
	switch CodeOf(err) {
	case CodeNotFound:
		return false, nil
	case CodeConflict: // a host without a credential asks for the ID
		_, err = EnrollReject.Ask(ctx, by, EnrollName{ID: id})
	}
	return err == nil, err
}
