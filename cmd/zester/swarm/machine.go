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

// A Machine is where a report was made.
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

// String is the machine in words.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %d MiB, Linux %s, %s", m.Cores, m.CPU, m.MemoryMB, m.Kernel, m.Go)
}

// cpuTime is what this process has used of the processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are constants
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// timeOf is the same for another process, 0 if it cannot be learned.
func timeOf(pid int) time.Duration {
	var t unix.Timespec
	clock := int32(^pid<<3 | 2) // of what all threads of a process have used, see clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// own is the memory of this process in KiB, without what it has freed.
func own() float64 {
	debug.FreeOSMemory()
	return resident(os.Getpid())
}

// size is the length of all files below a folder, without those that vanish meanwhile.
func size(dir string) (bytes int64) {
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
