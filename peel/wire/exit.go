package wire

import (
	"strconv"
	"strings"
)

const exitStatus = "exit status "

// An ExitCode is the exit code of a command, other than 0.
type ExitCode int

// String returns the error of a run whose command ended with the code.
func (c ExitCode) String() string { return exitStatus + strconv.Itoa(int(c)) }

// ParseExitCode returns the exit code in an error of [ExitCode.String]. ok is false for another error.
func ParseExitCode(text string) (code ExitCode, ok bool) {
	number, ok := strings.CutPrefix(text, exitStatus)
	n, err := strconv.Atoi(number)
	code = ExitCode(n)
	return code, ok && err == nil && n > 0 && n < 256 && code.String() == text
}
