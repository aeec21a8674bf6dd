package apiserver

import (
	"context"
	"errors"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/master/session"
)

func (s *Server) sessionVerbs() []service.Verb {
	return []service.Verb{
		service.On(api.SessionCreate, s.sessionCreate),
		service.On(api.SessionList, s.sessionList),
		service.On(api.SessionEnd, s.sessionEnd),
	}
}

func (s *Server) sessionCreate(ctx context.Context, c *service.Call, _ api.None) (*api.SessionCode, error) {
	code, err := s.o.Console.Sessions.Code(ctx, c.From)
	if err != nil {
		return nil, err
	}
	code.ConsoleAt = s.o.Console.At
	return code, nil
}

// sessionList shows operators the sessions of everybody.
func (s *Server) sessionList(ctx context.Context, c *service.Call, _ api.None) (*api.SessionsAnswer, error) {
	of := c.From.User
	if session.IsOperator(c.From.Role) {
		of = ""
	}
	all, err := s.o.Console.Sessions.List(ctx, of)
	for i := range all {
		all[i].Groups = nil // up to 256 KB of each
	}
	return &api.SessionsAnswer{Sessions: all}, err
}

func (s *Server) sessionEnd(ctx context.Context, c *service.Call, q api.SessionEndRequest) (*api.SessionsEnded, error) {
	c.About.Target = q.ID + q.User
	n, err := s.o.Console.Sessions.End(ctx, c.From, q)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return nil, &api.Error{Code: api.CodeNotFound, Msg: err.Error(), Err: err}
	case err != nil:
		return nil, err
	}
	return &api.SessionsEnded{Ended: n}, nil
}
