//go:build race

package cron

// The arithmetic has no goroutines: the race detector sees as much in a part of the simulation.
func init() { raced = true }
