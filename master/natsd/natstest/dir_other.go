//go:build !linux

package natstest

import "testing"

// shortLived is a directory for what a bubble stores.
func shortLived(t testing.TB) string {
	t.Helper()
	return t.TempDir()
}
