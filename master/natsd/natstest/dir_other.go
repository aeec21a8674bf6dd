//go:build !linux

package natstest

func memory() bool { return false }

func startsPrograms() bool { return false }
