//go:build linux

package peel

// SetRunDirectory gives the tests a lock of their own.
func SetRunDirectory(dir string) { runDirectory = dir }

// SetHostRoot gives the tests a host of their own.
func SetHostRoot(dir string) { hostRoot = dir }
