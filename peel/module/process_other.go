//go:build !linux

package module

import (
	"context"
	"errors"
)

func (*command) run(context.Context) (ending, error) {
	return ending{}, errors.New("commands run on Linux only")
}
