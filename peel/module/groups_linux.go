package module

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Groups records the process groups of running commands on disk. Records that exist when the peel starts are of a peel
// that was killed.
type Groups struct {
	dir string
	log *slog.Logger
}

// A group is the record of one process group. Its file is empty until the command has started.
type group struct {
	Boot    string `json:"boot"`    // the kernel's ID of this boot
	Init    uint64 `json:"init"`    // of [initOf]: it differs between two containers of one boot
	Session int    `json:"session"` // a process group never leaves its session
	ID      int    `json:"id"`      // PID of its leader
	Start   uint64 `json:"start"`   // start time of the leader
}

// A procStat has the needed fields of /proc/PID/stat.
type procStat struct {
	zombie         bool
	group, session int
	start          uint64 // in clock ticks since the boot
}

// OpenGroups kills the process groups that are recorded in dir and still run, and logs each of them. dir is created
// when the first command starts.
func OpenGroups(dir string, log *slog.Logger) (*Groups, error) {
	g := &Groups{dir: dir, log: log}
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		file := filepath.Join(dir, f.Name())
		if err := g.end(file); err != nil {
			log.Error("processes of a command may still run after the peel was killed", "record", file, "err", err)
		}
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// open creates the file for the record of a group before the command starts. It returns nil if that fails, for example
// on a full disk; the command runs nevertheless.
func (g *Groups) open() *os.File {
	if g == nil {
		return nil
	}
	err := os.MkdirAll(g.dir, 0o700)
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(g.dir, "")
	}
	if err != nil {
		g.log.Error(
			"process group of a command not recorded: if the peel is killed while it runs, its processes live on",
			"err", err,
		)
	}
	return f
}

// record writes the record of a group. Its leader must not be reaped yet.
func (g *Groups) record(f *os.File, leader int) {
	if f == nil {
		return
	}
	now, err := here()
	if err == nil {
		var s procStat
		s, err = readStat(leader)
		now.Session, now.ID, now.Start = s.session, leader, s.start
	}
	if err == nil {
		err = json.NewEncoder(f).Encode(now)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		g.log.Error(
			"process group of a command not recorded: if the peel is killed while it runs, its processes live on",
			"group", leader, "err", err,
		)
	}
}

// forget removes the record of a command that has ended or did not start.
func (g *Groups) forget(f *os.File) {
	if f == nil {
		return
	}
	_ = f.Close() // if the command did not start
	if err := os.Remove(f.Name()); err != nil {
		g.log.Error(
			"record of a process group not removed: processes that the command left behind are killed when the "+
				"peel starts again",
			"err", err,
		)
	}
}

// end kills the processes of a recorded group.
func (g *Groups) end(file string) error {
	recorded, err := readGroup(file)
	if err != nil {
		return err
	}
	now, err := here()
	if err != nil {
		return err
	}
	if recorded.Boot != now.Boot || recorded.Init != now.Init {
		return nil // the host or container has restarted since
	}
	members, err := membersOf(recorded.ID)
	if err != nil {
		return err
	}
	running := recorded.running(members)
	if running == 0 || recorded.ID == unix.Getpgrp() { // a command that starts a peel may have it in its group
		return nil
	}
	g.log.Warn("processes of a command outlived the peel that was killed, and are killed now", "group", recorded.ID,
		"processes", running)
	if err := unix.Kill(-recorded.ID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot kill process group %d: %w", recorded.ID, err)
	}
	return nil
}

const maxGroup = 4 << 10 // bytes of a record that are read

func readGroup(file string) (group, error) {
	f, err := os.Open(file)
	if err != nil {
		return group{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGroup))
	if err != nil {
		return group{}, err
	}
	return parseGroup(data)
}

func parseGroup(data []byte) (g group, err error) {
	if len(data) == 0 {
		return group{}, errors.New("the kill came before the process group was recorded")
	}
	if err := json.Unmarshal(data, &g); err != nil {
		return group{}, err
	}
	if g.ID <= 1 {
		return group{}, fmt.Errorf("a command cannot have process group %d", g.ID)
	}
	return g, nil
}

// running returns the number of running processes of the recorded group, 0 if the group ID was reused. The kernel
// reuses the ID of a group only when the group has no process left.
func (g group) running(members map[int]procStat) (n int) {
	for pid, s := range members {
		if s.session != g.Session || s.start < g.Start || pid == g.ID && s.start != g.Start {
			return 0
		}
		if !s.zombie {
			n++
		}
	}
	return n
}

// here returns a record with this boot and container.
func here() (group, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return group{}, err
	}
	init, err := initOf()
	return group{Boot: string(bytes.TrimSpace(boot)), Init: init}, err
}

// initOf returns the start time of PID 1. If /proc hides it from this user (hidepid in proc(5)), it returns the number
// of the PID namespace, which another container gets only when this one has ended.
func initOf() (uint64, error) {
	first, err := readStat(1)
	if err == nil || !isHidden(err) {
		return first.start, err
	}
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &namespace); err != nil {
		return 0, fmt.Errorf("cannot read the PID namespace: %w", err)
	}
	return namespace.Ino, nil
}

// isHidden reports whether a process does not exist or is of another user and hidden from this one.
func isHidden(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ESRCH)
}

// membersOf returns the processes of a group by their PIDs, as far as this user sees them.
func membersOf(id int) (map[int]procStat, error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	members := map[int]procStat{}
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		s, err := readStat(pid)
		switch {
		case isHidden(err): // it has ended meanwhile, or is not of this user
		case err != nil:
			return nil, err
		case s.group == id:
			members[pid] = s
		}
	}
	return members, nil
}

func readStat(pid int) (procStat, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := os.ReadFile(file)
	if err != nil {
		return procStat{}, err
	}
	s, ok := parseStat(data)
	if !ok {
		return procStat{}, fmt.Errorf("cannot read %s: %q", file, data)
	}
	return s, nil
}

// parseStat parses the fields after the name of the program, which may contain any byte; see proc_pid_stat(5).
func parseStat(data []byte) (s procStat, ok bool) {
	const state, group, session, start = 0, 2, 3, 19
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= start {
		return procStat{}, false
	}
	var errs [3]error
	s.zombie = string(fields[state]) == "Z" || string(fields[state]) == "X"
	s.group, errs[0] = strconv.Atoi(string(fields[group]))
	s.session, errs[1] = strconv.Atoi(string(fields[session]))
	s.start, errs[2] = strconv.ParseUint(string(fields[start]), 10, 64)
	if errors.Join(errs[:]...) != nil {
		return procStat{}, false
	}
	return s, true
}
