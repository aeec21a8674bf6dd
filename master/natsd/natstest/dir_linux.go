package natstest

import "syscall"

const memoryLeast = 2 << 30 // bytes that are free: the streams of a bus may reserve room

// startsPrograms reports whether a program among the files in memory can be started.
func startsPrograms() bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(memoryFiles, &fs) == nil && fs.Flags&syscall.MS_NOEXEC == 0
}

// memory reports whether there is room for files in memory.
func memory() bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(memoryFiles, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= memoryLeast
}
