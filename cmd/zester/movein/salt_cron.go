package movein

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// percent matches a percent sign that ends a command for cron. Salt writes it as it is; here it is written with a
// backslash.
var percent = regexp.MustCompile(`(^|[^\\])(\\\\)*%`)

// waitsForMinute begins the command of a job that each host runs at another minute.
const waitsForMinute = "sleep $(($(cksum </etc/machine-id | cut -d ' ' -f 1) % 60))m; "

// cronPresent reads a line of a user's crontab.
func cronPresent(c *conversion) error {
	times, waits := make([]string, 5), ""
	for i, name := range []string{"minute", "hour", "daymonth", "month", "dayweek"} {
		value := c.takeText(name)
		if name == "minute" && value == "random" {
			value = "0"
			waits = waitsForMinute
			c.note("argument minute: random: the job waits from 0 to 59 minutes, as the machine ID of the host says; " +
				"Salt has a random minute in the crontab")
		}
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
	c.args["command"], c.args["cron"] = waits+c.Name, cmp.Or(special, strings.Join(times, " "))
	if user != "" && user != "root" {
		c.args["user"] = user
	}
	if env := c.host.crontabEnv(cmp.Or(user, "root")); len(env) > 0 {
		c.args["env"] = env
	}
	c.note("Salt's line stays in the crontab of " + cmp.Or(user, "root") + ", and its job would run twice: remove it")
	return nil
}

// crontabEnv returns the variables that Salt writes before the jobs of a user.
func (h *Minion) crontabEnv(user string) map[string]string {
	env := map[string]string{}
	for _, d := range h.Low {
		if d.Function() == "cron.env_present" && number(d.args["user"], "root") == user {
			env[d.Name] = number(d.args["value"], "")
		}
	}
	return env
}

// cronVariable leaves out a variable of a crontab: each cron.present of the user has it.
func cronVariable(c *conversion) error {
	user := number(c.left["user"], "root")
	if !slices.ContainsFunc(c.host.Low, func(d Declaration) bool {
		return d.Function() == "cron.present" && number(d.args["user"], "root") == user
	}) {
		return refuse("a variable of a crontab without jobs of Salt: give it as env of cron.present")
	}
	c.note("the variable is in env of each cron.present of " + user + "; other jobs of the crontab keep it")
	return nothing(c)
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
