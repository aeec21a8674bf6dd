//go:build linux

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Warn notes what people should know about a state, although it does not fail. Nothing is noted twice.
func (w *World) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(w.warnings, text) {
		w.warnings = append(w.warnings, text)
	}
}

// TakeWarnings returns the warnings since the last call, with semicolons between them.
func (w *World) TakeWarnings() string {
	text := strings.Join(w.warnings, "; ")
	w.warnings = nil
	return text
}

// IsMounted reports whether a file system is mounted at a path, which has no blanks.
func (w *World) IsMounted(name string) bool {
	if w.mounted[name] {
		return true
	}
	if real, err := filepath.EvalSymlinks(name); err == nil { // the kernel lists paths without links
		name = real
	}
	data, _ := os.ReadFile("/proc/self/mountinfo") // proc(5); without it nothing is known to be mounted
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == name {
			return true
		}
	}
	return false
}

// SetMounted plans that a file system is mounted at a path. Nobody knows before what is in it.
func (w *World) SetMounted(name string) {
	w.mounted[name] = true
	w.Doubt(name, "a file system would be mounted there")
}

// Answer returns the planned answer to a question of debconf; ok is false if no step plans one.
func (w *World) Answer(question string) (value string, ok bool) {
	value, ok = w.answers[question]
	return value, ok
}

// SetAnswer plans the answer to a question of debconf.
func (w *World) SetAnswer(question, value string) { w.answers[question] = value }
