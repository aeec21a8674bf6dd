package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// addFormer adds commands under their former names. Help hides them, and they print the new name on stderr.
func (a *app) addFormer(root *cobra.Command) {
	enroll := group("enroll", "", a.authPeelCommand().Commands()...)
	a.former(enroll, "auth peel")
	joinToken := a.joinTokenCommand()
	joinToken.Use = "token"
	a.former(joinToken, "auth join-token")
	enroll.AddCommand(joinToken)
	token := a.tokenCommand()
	a.former(token, "auth token")
	site := group("revoke", "", a.revokeSiteCommand())
	site.Commands()[0].Use = "site NAME"
	a.former(site, "auth site revoke")
	list := &cobra.Command{
		Use: "list EXPRESSION", Args: words("expression"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.evalLive(cmd, args[0]) },
	}
	a.former(list, "target eval")
	root.AddCommand(enroll, token)
	under(root, "auth").AddCommand(site)
	under(root, "target").AddCommand(list)
}

// under returns the subcommand of a name.
func under(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name {
			return c
		}
	}
	panic("no command " + name)
}

// former makes cmd, or each command of a group, a hidden alias of the command now: with its flags, and with a message.
func (a *app) former(cmd *cobra.Command, now string) {
	cmd.Hidden = true
	for _, c := range cmd.Commands() {
		if l, known := leaves[now+" "+c.Name()]; known {
			a.formerLeaf(c, now+" "+c.Name(), l)
		} else {
			a.formerLeaf(c, now, leaves[now])
		}
	}
	if !cmd.HasSubCommands() {
		a.formerLeaf(cmd, now, leaves[now])
	}
}

func (a *app) formerLeaf(cmd *cobra.Command, now string, l leaf) {
	a.addShared(cmd.Flags(), l.flags, sharedFlag)
	do := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.deprecated(cmd, now)
		return do(cmd, args)
	}
}

// deprecated prints the new name of a command.
func (a *app) deprecated(cmd *cobra.Command, now string) {
	fmt.Fprintf(a.errOut, "%s is deprecated and goes away with the next release: use zester %s\n",
		strings.TrimSpace(cmd.CommandPath()), now)
}
