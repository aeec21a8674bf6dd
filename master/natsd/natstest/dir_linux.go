package natstest

import "syscall"

const memoryLeast = 2 << 30 // free bytes in memory for the streams of a bus

// startsPrograms reports whether programs can be started from memory.
func startsPrograms() bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(memoryFiles, &fs) == nil && fs.Flags&syscall.MS_NOEXEC == 0
}

// memory reports whether there is room for files in memory.
func memory() bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(memoryFiles, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= memoryLeast
}
