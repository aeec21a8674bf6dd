package join

// IsWrong reports whether the clock of an era of a report was wrong.
func IsWrong(r *Report, era int) bool { return r.clocks[era].isWrong }
