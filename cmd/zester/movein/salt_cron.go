package movein

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// percent matches a percent sign that ends a command for cron. Salt writes it as it is; here it is written with a
// backslash.
var percent = regexp.MustCompile(`(^|[^\\])(\\\\)*%`)

// cronPresent reads a line of a user's crontab.
func cronPresent(c *conversion) error {
	times := make([]string, 5)
	for i, name := range []string{"minute", "hour", "daymonth", "month", "dayweek"} {
		value := c.takeText(name)
		if value == "random" {
			return refuse("argument %s: random: an entry below schedule: with cmd.run, cron and splay", name)
		}
		times[i] = cmp.Or(value, "*")
	}
	special := c.takeText("special")
	identifier := c.identifier()
	user := c.takeText("user")
	if percent.MatchString(c.Name) {
		c.note("the % in the command is this character: cron ends Salt's command there, and gives it the rest as input")
	}
	c.args["name"] = c.cronName(identifier)
	if isOff := c.takeBool("commented", false); isOff {
		c.function = "cron.absent"
		c.note("a job that is commented out does not run: its file is removed, and Salt's line stays, commented out")
		return nil
	}
	c.args["command"], c.args["cron"] = c.Name, cmp.Or(special, strings.Join(times, " "))
	if user != "" && user != "root" {
		c.args["user"] = user
	}
	c.note("Salt's line stays in the crontab of " + cmp.Or(user, "root") + ", and its job would run twice: remove it")
	return nil
}

// identifier returns what tells a line of cron from others, or "" if that is its command.
func (c *conversion) identifier() string {
	if c.left["identifier"] == false {
		c.take("identifier")
	}
	return c.takeText("identifier")
}

// cronName returns the name of the file of a line of cron.
func (c *conversion) cronName(identifier string) string {
	base := c.source.hidden.mask(cmp.Or(identifier, c.ID))
	return strings.Trim(strings.ReplaceAll(notInNames.ReplaceAllString(base, "-"), ".", "-"), "-")
}

// inBasic matches the characters that a basic regular expression of sed does not take as they are.
var inBasic = regexp.MustCompile(`[\\.*\[\]^$/]`)

// noCron removes a job from the crontab of a user, and the file of the job here. Salt writes the identifier of a job,
// or else its command, at the end of the line before it.
func noCron(c *conversion) error {
	identifier := c.identifier()
	user := words(cmp.Or(c.takeText("user"), "root"))
	c.args["name"] = c.cronName(identifier)
	if identifier == "" {
		c.note("a line of the command in the crontab without SALT_CRON_IDENTIFIER stays: remove it")
	}
	id := cmp.Or(identifier, strings.TrimSpace(c.Name))
	mark := "SALT_CRON_IDENTIFIER:" + inBasic.ReplaceAllString(id, `\$0`) + "$"
	list := "crontab -u " + user + " -l"
	c.then = []made{{function: "cmd.run", args: map[string]any{
		"command": list + " | sed " + shell.Quote("/"+mark+"/,+1d") + " | crontab -u " + user + " -",
	}, fields: map[string]any{"onlyif": []string{list + " 2>/dev/null | grep -q -e " + shell.Quote(mark)}}}}
	return nil
}
