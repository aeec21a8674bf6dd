//go:build !linux

package peel

// features are the parts of settings that this build understands beside the schedule.
var features []string

// addStates registers nothing: states need Linux.
func (p *Peel) addStates() {}
