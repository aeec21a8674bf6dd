package swarm

import (
	"fmt"
	"runtime"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
)

// A Machine describes where a run was made.
type Machine struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	MemoryMB uint64 `json:"memory_mb"`
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
}

// Describe returns the machine of this process.
func Describe() (Machine, error) {
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
