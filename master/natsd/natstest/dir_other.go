//go:build !linux

package natstest

func memory() bool { return false }
