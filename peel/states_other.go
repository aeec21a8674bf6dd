//go:build !linux

package peel

// addStates registers nothing: states need Linux.
func (p *Peel) addStates() {}
