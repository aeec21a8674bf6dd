package apiserver

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/api"
)

// credentialsInPage bounds a page of credentials. Each takes at most 400 bytes.
const credentialsInPage = 1000

func (s *Server) credentialList(ctx context.Context, q api.CredentialsRequest) (*api.CredentialsPage, error) {
	all, err := s.o.Authority.Held(ctx)
	if err != nil {
		return nil, err
	}
	rest := all[min(max(q.Skip, 0), len(all)):]
	shown := rest[:min(credentialsInPage, len(rest))]
	return &api.CredentialsPage{Credentials: shown, More: len(shown) < len(rest)}, nil
}
