//go:build !linux

package peel

import (
	"context"
	"errors"

	"github.com/seed-c01c3da5/zester/peel/module"
)

var features []string // states need Linux

func (p *Peel) addStates() {}

func (p *Peel) fileRead(context.Context, module.Call) (any, error) {
	return nil, errors.New("files are read on Linux alone")
}
