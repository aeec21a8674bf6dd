package mcp

// Text is the text of a result with data.
func Text(said string, data any) string { return (&reply{said, data}).text() }

// Depth is depth.
func Depth(text []byte) int { return depth(text) }
