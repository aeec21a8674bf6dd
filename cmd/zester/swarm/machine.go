package swarm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
	"golang.org/x/sys/unix"
)

// A Machine describes where a run was made.
type Machine struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	MemoryMB uint64 `json:"memory_mb"`
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
}

func describe() (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	info, err := cpu.Info()
	if err != nil {
		return m, fmt.Errorf("cannot describe the processor: %w", err)
	}
	if len(info) > 0 {
		m.CPU = info[0].ModelName
	}
	memory, err := mem.VirtualMemory()
	if err != nil {
		return m, fmt.Errorf("cannot describe the memory: %w", err)
	}
	m.MemoryMB = memory.Total >> 20
	m.Kernel, err = host.KernelVersion()
	return m, err
}

// String describes the machine.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %d MiB, Linux %s, %s", m.Cores, m.CPU, m.MemoryMB, m.Kernel, m.Go)
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are constants
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuTimeOf returns the processor time that another process has used, 0 if it is not known.
func cpuTimeOf(pid int) time.Duration {
	var t unix.Timespec
	clock := int32(^pid<<3 | 2) // the clock of all threads of a process, see clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// ownMemory returns the resident memory of this process in KiB, after it has returned what it freed.
func ownMemory() float64 {
	debug.FreeOSMemory()
	return resident(os.Getpid())
}

// dirSize returns the length of all files below a folder, without files that are deleted meanwhile.
func dirSize(dir string) (bytes int64) {
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
