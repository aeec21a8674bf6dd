package movein

import (
	"regexp"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// swap has the host use a file or a device as swap space, and a line in /etc/fstab as Salt writes it.
func swap(c *conversion) error {
	persists := c.takeBool("persist", true)
	if persists {
		c.then = []made{{function: "file.line", args: map[string]any{
			"path": "/etc/fstab", "line": c.Name + "\t\tnone\tswap\tdefaults\t0 0",
			"match": `^[ \t]*` + regexp.QuoteMeta(c.Name) + `[ \t]+\S+[ \t]+swap[ \t]`,
		}}}
		c.note("the line in /etc/fstab is written again where it has other blanks: Salt leaves it")
	}
	name := shell.Quote(c.Name)
	c.unless = []string{"swapon --show=NAME --noheadings | grep -Fqx -e " + name + ` -e "$(realpath ` + name + `)"`}
	return c.runs("", "swapon", c.Name)
}

// localeMade has a locale made on a host of Debian.
func localeMade(c *conversion) error {
	name, _, _ := strings.Cut(c.Name, " ")
	_, charset, hasCharset := strings.Cut(name, ".")
	if family, _ := c.host.Grains["os_family"].(string); family != "" && family != "Debian" || !hasCharset {
		return refuse("a locale without a charset, or of another distribution than Debian: cmd.run with localedef")
	}
	listed := strings.ReplaceAll(name, charset, strings.ToLower(strings.ReplaceAll(charset, "-", "")))
	c.unless = []string{"locale -a | grep -Fqxi -e " + shell.Quote(listed)}
	c.first = []made{{function: "file.line", fields: map[string]any{"unless": c.unless}, args: map[string]any{
		"path": "/etc/locale.gen", "line": name + " " + charset, "all": true,
		"match": `^[ \t]*(#[ \t]*)?` + regexp.QuoteMeta(name) + `[ \t]+` + regexp.QuoteMeta(charset) + `[ \t]*$`,
	}}}
	return c.runs("", "locale-gen")
}

// localeUsed has a locale as the one of the host.
func localeUsed(c *conversion) error {
	lang := "LANG=" + c.Name
	return c.runs("localectl status | grep -Eq "+shell.Quote("[[:space:]]"+regexp.QuoteMeta(lang)+"$"),
		"localectl", "set-locale", lang)
}

// unmounted has nothing mounted at a path, and no line for it in /etc/fstab.
func unmounted(c *conversion) error {
	device := c.takeText("device")
	which, of := `[^#\s]\S*`, ""
	if device != "" {
		which, of = regexp.QuoteMeta(device), "-S "+shell.Quote(device)+" "
	}
	if persists := c.takeBool("persist", false); persists {
		c.then = []made{{function: "file.line", args: map[string]any{
			"path": "/etc/fstab", "absent": true,
			"match": `^[ \t]*` + which + `[ \t]+` + regexp.QuoteMeta(c.Name) + `[ \t]`,
		}}}
	}
	c.unless = []string{"! findmnt -n " + of + "-M " + shell.Quote(c.Name) + " >/dev/null"}
	return c.runs("", "umount", "--", c.Name)
}

// apache returns what switches a part of Apache on or off, as Debian does it. folder is where a link to the part is.
func apache(program, folder, ending string) func(*conversion) error {
	return func(c *conversion) error {
		name := strings.TrimSuffix(c.Name, ending)
		link := "/etc/apache2/" + folder + "/" + name + ending
		if c.Fun == "enabled" {
			c.args["creates"] = link
			return c.runs("", "a2en"+program, "-q", name)
		}
		c.needs("test -L " + shell.Quote(link))
		return c.runs("", "a2dis"+program, "-q", name)
	}
}
