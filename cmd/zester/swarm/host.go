// File host.go reads what processes of this host use of its processors and memory. [CPUTime] and [OwnMemory] are those
// of this process; [CPUTimeOf], [Resident] and [HostStatus] return those of other processes.

package swarm

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the processor time that this process has used.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are constants
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// CPUTimeOf returns the processor time that another process has used, 0 if it is not known.
func CPUTimeOf(pid int) time.Duration {
	var t unix.Timespec
	clock := int32(^pid<<3 | 2) // the clock of all threads of a process, see clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// OwnMemory returns the Resident memory of this process in KiB, after it has returned what it freed.
func OwnMemory() float64 {
	debug.FreeOSMemory()
	return Resident(os.Getpid())
}

// DirSize returns the length of all files below a folder, without files that are deleted meanwhile.
func DirSize(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// WakeUps returns how often the threads of a process have been woken.
func WakeUps(pid int) (n float64) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, file := range files {
		n += field(file, "voluntary_ctxt_switches")
	}
	return n
}

// Resident returns the Resident memory of a process in KiB, 0 if it is not known.
func Resident(pid int) float64 { return HostStatus(pid, "VmRSS") }

// HostStatus returns a number of /proc/PID/status such as VmRSS, in KiB, 0 if it is not known.
func HostStatus(pid int, name string) float64 {
	return field(fmt.Sprintf("/proc/%d/status", pid), name)
}

// field returns a number of a file with lines such as "VmRSS: 12 kB", 0 if it is not known.
func field(file, name string) float64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if rest, ok := strings.CutPrefix(string(line), name+":"); ok {
			if n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64); err == nil {
				return n
			}
		}
	}
	return 0
}

// ProcessExists reports whether path is a regular file.
func ProcessExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
