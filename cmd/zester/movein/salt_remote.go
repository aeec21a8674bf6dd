package movein

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// fromWeb reads a source from https, which needs its SHA-256 in the declaration. ok is false for any other source. Of
// several sources Salt takes the first that is there; for https nobody knows before whether it is.
func (c *conversion) fromWeb(value any) (ok bool, err error) {
	names, isList := texts(value)
	if !isList {
		return false, nil
	}
	at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "https://") })
	if at < 0 {
		return false, nil
	}
	if at > 0 {
		if _, err := c.source.find(listOfTexts(names[:at])); err == nil {
			return false, nil
		}
	}
	if len(names) > at+1 {
		c.note("of several sources the first is taken, " + names[at] + ": Salt takes another if it does not answer")
	}
	names = names[at:]
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

// listOfTexts returns texts as JSON has them.
func listOfTexts(texts []string) []any {
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = text
	}
	return values
}

// archive reads what is extracted.
func archive(c *conversion) error {
	c.note("what is in the archive is written in the first run, and again where it was changed: Salt extracts only " +
		"what is missing, unless overwrite is true")
	if missing := c.takeText("if_missing"); missing != "" {
		c.unless = append(c.unless, "test -e "+shell.Quote(missing))
	}
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
