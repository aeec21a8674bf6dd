package module

// A command is a checked command, ready to run.
type command struct {
	argv      []string
	env       []string
	dir       string
	identity  *identity // nil is the peel's own
	stdin     string
	maxOutput int // bytes of each stream that are kept
	secrets   []Secret
	groups    *Groups // if nil, the process group is not recorded
}

// An identity is the user and groups of a command.
type identity struct {
	uid, gid uint32
	groups   []uint32
}

// An ending is how a command ended.
type ending struct {
	code           int    // -1 if it did not exit by itself
	signal         string // the signal that ended it, or empty
	cut            error  // the cause if the context ended before the command, else nil
	held           bool   // a process that the command left behind kept the output open
	stdout, stderr stream
}
