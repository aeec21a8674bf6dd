package main

import (
	"fmt"
	"maps"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// secretive implements --show-secrets. Its key is made for one job and never leaves this process, so nobody else can
// read the return that the bus stores.
type secretive struct {
	show   bool
	opener *settings.Opener
	key    string // in the data of a return, of what the secrets replace
}

// secretKeys are the functions whose results have secrets, with the key in the data that has them once they are opened.
var secretKeys = map[string]string{"cron.tables": "tables", "file.read": "content", "settings.get": "settings"}

// ask adds the key to which peels seal their return to a job.
func (s *secretive) ask(spec *job.Spec) error {
	if !s.show {
		return nil
	}
	key, ok := secretKeys[spec.Function]
	if !ok {
		return usageError("--show-secrets is for settings.get, cron.tables and file.read: %s shows no secrets",
			spec.Function)
	}
	opener, err := settings.NewOpener()
	if err != nil {
		return err
	}
	s.opener, s.key = opener, key
	spec.Args = withPair(spec.Args, catalogue.SecretsTo, any(string(opener.To)))
	return nil
}

// open returns a copy of r with its secrets unsealed, or r if it has none.
func (s *secretive) open(r *wire.Return) *wire.Return {
	if s.opener == nil || r == nil {
		return r
	}
	data, ok := r.Data.(map[string]any)
	if !ok || data["secrets"] == nil {
		return r
	}
	opened := *r
	value, err := unseal(data["secrets"], s.opener)
	if err != nil {
		opened.Success, opened.Error = false, err.Error()
		return &opened
	}
	data = maps.Clone(data)
	delete(data, "secrets")
	data[s.key] = value
	opened.Data = data
	return &opened
}

func unseal(v any, opener *settings.Opener) (any, error) {
	data, err := canon.Marshal(v)
	if err != nil {
		return nil, err
	}
	var sealed settings.Sealed
	if err := canon.Unmarshal(data, &sealed); err != nil {
		return nil, fmt.Errorf("cannot read the sealed secrets of the peel: %w", err)
	}
	return opener.Open(&sealed)
}
