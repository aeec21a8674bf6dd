//go:build !linux

package module

import (
	"context"
	"errors"
	"log/slog"
)

func (*command) run(context.Context) (ending, error) {
	return ending{}, errors.New("commands run on Linux only")
}

// Groups is empty, as commands run only on Linux.
type Groups struct{}

// OpenGroups returns Groups.
func OpenGroups(string, *slog.Logger) (*Groups, error) { return &Groups{}, nil }
