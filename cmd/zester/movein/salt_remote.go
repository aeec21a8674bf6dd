package movein

import (
	"strconv"
	"strings"
)

// fromWeb reads a source from https, which needs its SHA-256 in the declaration. ok is false for any other source.
func (c *conversion) fromWeb(value any) (ok bool, err error) {
	names, isList := texts(value)
	if !isList || len(names) != 1 || !strings.HasPrefix(names[0], "https://") {
		return false, nil
	}
	if c.left["template"] != nil {
		return true, refuse("argument source: a template from https")
	}
	hash := c.takeText("source_hash")
	sum := strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(hash, "sha256="), "sha256:"))
	if len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
		return true, refuse("argument source_hash: not a SHA-256 in digits, which a source from https needs")
	}
	c.args["source"], c.args["sha256"] = names[0], sum
	return true, nil
}

// archive reads what is extracted.
func archive(c *conversion) error {
	c.note("what is in the archive is written in the first run, and again where it was changed: Salt extracts only " +
		"what is missing, unless overwrite is true")
	options := c.takeText("options")
	if count, isStrip := strings.CutPrefix(options, "--strip-components="); isStrip {
		strip, err := strconv.ParseUint(count, 10, 8)
		if err != nil {
			return refuse("argument options: %q", options)
		}
		c.args["strip"] = strip
	} else if options != "" {
		return refuse("argument options: not --strip-components")
	}
	value, _ := c.take("source")
	if isRemote, err := c.fromWeb(value); err != nil || isRemote {
		return err
	}
	var err error
	c.args["source"], err = c.copyFile(value)
	return err
}
