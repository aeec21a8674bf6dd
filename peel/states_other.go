//go:build !linux

package peel

var features []string // states need Linux

func (p *Peel) addStates() {}
