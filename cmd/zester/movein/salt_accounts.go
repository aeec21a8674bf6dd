package movein

import (
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// user reads what happens to the groups and the password that a user has already.
func user(c *conversion) error {
	removes := c.takeBool("remove_groups", true)
	if groups := c.left["groups"]; removes && groups != nil {
		c.note("a user keeps its groups that the state does not name: Salt removes them, unless remove_groups is false")
	}
	enforces := c.takeBool("enforce_password", true)
	if password := c.left["password"]; !enforces && password != nil && password != "" {
		return refuse("argument enforce_password: false, and a password that a person sets would be replaced")
	}
	optional, _ := c.take("optional_groups")
	if groups, isList := texts(optional); isList {
		c.optionalGroups(groups)
	} else if optional != nil {
		return refuse("argument optional_groups: a value of another form")
	}
	if err := c.aging(); err != nil {
		return err
	}
	c.noteAccount()
	if err := gid(c); err != nil {
		return err
	}
	c.leaveOutMainGroup()
	return nil
}

// agingOf are the arguments about the age of a password, with the options of chage and the fields of /etc/shadow.
var agingOf = []struct{ salt, option, field string }{
	{"mindays", "-m", "4"},
	{"maxdays", "-M", "5"},
	{"warndays", "-W", "6"},
	{"inactdays", "-I", "7"},
	{"expire", "-E", "8"},
}

// aging has the password of a user locked, or age as its arguments say. -1 is an empty field.
func (c *conversion) aging() error {
	shadow := "getent shadow " + words(c.Name) + " | cut -d: -f"
	for _, of := range agingOf {
		value, ok := c.take(of.salt)
		if !ok {
			continue
		}
		days, err := strconv.Atoi(plain(value))
		if err != nil {
			return refuse("argument %s: not a number of days: cmd.run: chage, with unless", of.salt)
		}
		want := strings.Replace(strconv.Itoa(days), "-1", "", 1)
		c.then = append(c.then, made{
			function: "cmd.run", args: map[string]any{"argv": []string{"chage", of.option, strconv.Itoa(days), c.Name}},
			fields: map[string]any{"unless": []string{`test "$(` + shadow + of.field + `)" = ` + shell.Quote(want)}},
		})
	}
	if c.left["password_lock"] == true && c.Declaration.args["password"] != nil {
		return refuse("arguments password and password_lock together: write the hash with ! before it as password")
	}
	if c.left["password_lock"] == true {
		c.take("password_lock")
		c.then = append(c.then, made{
			function: "cmd.run", args: map[string]any{"argv": []string{"usermod", "-L", c.Name}},
			fields: map[string]any{"unless": []string{shadow + "2 | grep -q '^!'"}},
		})
	}
	return nil
}

// optionalGroups adds the user to each of the groups, if the host has it.
func (c *conversion) optionalGroups(groups []string) {
	for _, group := range groups {
		c.then = append(c.then, made{
			function: "cmd.run", args: map[string]any{"argv": []string{"usermod", "-aG", group, c.Name}},
			fields: map[string]any{
				"onlyif": []string{words("getent", "group", group) + " >/dev/null"},
				"unless": []string{words("id", "-nG", "--", c.Name) + " | tr ' ' '\\n' | grep -Fqx -- " + words(group)},
			},
		})
	}
}

// noteAccount notes what becomes of a user that is there, and has a user of the system get its home, as Salt does.
func (c *conversion) noteAccount() {
	for _, argument := range []string{"uid", "gid"} {
		if allows := "allow_" + argument + "_change"; c.left[argument] != nil && c.left[allows] != true {
			c.note("a user with another " + argument + " gets this one: Salt fails, unless " + allows + " is true")
		}
	}
	if c.left["fullname"] != nil {
		c.note("argument fullname becomes the whole comment of the user: Salt leaves its room and its phones")
	}
	if c.left["createhome"] != false {
		c.note(forAll + "a home that is missing is not made for a user that is there: Salt makes it, " +
			"unless createhome is false")
	}
	if c.left["system"] == true && c.left["createhome"] == nil {
		c.left["createhome"] = true
	}
}

// leaveOutMainGroup takes the main group of a user out of its other groups. For Salt a user is in the main group, too;
// here groups are those that list the user.
func (c *conversion) leaveOutMainGroup() {
	groups, ok := texts(c.left["groups"])
	if !ok {
		return
	}
	mainGroup := c.Name // Debian makes a group for each user
	if group, ok := c.args["group"].(string); ok {
		mainGroup = group
	}
	others := []any{}
	for _, group := range groups {
		if group != mainGroup {
			others = append(others, group)
		}
	}
	if len(others) == 0 {
		c.take("groups")
		return
	}
	c.left["groups"] = others
}

// members converts the members of a group.
func members(c *conversion) error {
	_, adds := c.left["addusers"]
	if _, sets := c.left["members"]; sets && adds {
		return refuse("arguments members and addusers of one group")
	} else if sets {
		c.note("members of a group that the state does not name stay: Salt removes them")
	}
	return nil
}

// gid reads the primary group of a user.
func gid(c *conversion) error {
	group := c.takeText("gid")
	fromName := c.takeBool("gid_from_name", false)
	if fromName {
		group = c.Name
	}
	if group == "" {
		return nil
	}
	if _, err := strconv.Atoi(group); err == nil {
		name, known := c.host.groupOf(group)
		if !known {
			return refuse("argument gid: a number of a group that no state has")
		}
		group = name
	}
	c.args["group"] = group
	return nil
}

// groupOf returns the name of the group that a state gives a number.
func (h *Minion) groupOf(number string) (name string, known bool) {
	for _, d := range h.Low {
		if d.Function() == "group.present" && d.args["gid"] != nil && plain(d.args["gid"]) == number {
			return d.Name, true
		}
	}
	return "", false
}
