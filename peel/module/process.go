package module

// A command is what is to be run, all questions answered.
type command struct {
	argv      []string
	env       []string
	dir       string
	identity  *identity // nil: the peel's own
	stdin     string
	maxOutput int // bytes kept of each stream
	secrets   []Secret
	groups    *Groups // nil: its process group is not recorded
}

// An identity is whom to run as.
type identity struct {
	uid, gid uint32
	groups   []uint32
}

// An ending is how a command ended.
type ending struct {
	code           int    // -1 if it did not exit by itself
	signal         string // that ended it
	cut            error  // the cause of the context that ended before the command did
	held           bool   // a process that the command left behind held the output
	stdout, stderr stream
}
