package natstest

import "syscall"

const memoryLeast = 2 << 30 // bytes that are free: the streams of a bus may reserve room

// memory says whether there is room for files in memory.
func memory() bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(memoryFiles, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= memoryLeast
}
