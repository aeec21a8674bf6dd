//go:build linux

package peel

// SetRunDirectory gives the tests a lock of their own.
func SetRunDirectory(dir string) { runDirectory = dir }
