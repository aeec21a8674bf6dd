package wire

import (
	"strconv"
	"strings"
)

const exitStatus = "exit status "

// ExitError returns the error of a run whose command ended with an exit code other than 0.
func ExitError(code int) string { return exitStatus + strconv.Itoa(code) }

// ExitCode returns the exit code in an error that [ExitError] returned. ok is false for another error.
func ExitCode(text string) (code int, ok bool) {
	number, ok := strings.CutPrefix(text, exitStatus)
	code, err := strconv.Atoi(number)
	return code, ok && err == nil && code > 0 && code < 256 && ExitError(code) == text
}
