package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
)

func (a *app) rotateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate keys|ca",
		Short: "Replace the signing keys, or the CA of the listeners",
		Long: `rotate keys replaces the keys that sign credentials; rotate ca replaces the CA
of the masters' listeners. The former keys and CA stay valid until zester auth
retire, so nobody is locked out. Peels change to the new ones within a day. All
other credentials, of zester auth issue and zester auth user add, have to be
issued again (--again). Copy the folder auth of the data directory to other
masters that have the keys. If rotate is interrupted nobody is locked out: run
it again.`,
		Args: words("word keys or ca"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.rotation(cmd, api.RotateRequest{What: api.Rotatable(args[0])}, api.AuthRotate,
				"replaced; the former stay valid until zester auth retire "+args[0])
		},
	}
}

func (a *app) retireCommand() *cobra.Command {
	q := api.RotateRequest{}
	cmd := &cobra.Command{
		Use:   "retire keys|ca",
		Short: "Stop trusting the former signing keys, or the former CA",
		Long: `retire ends the validity of the former keys or CA after zester auth rotate. It
is refused while credentials of the former keys are in use, with the names of
their holders, unless --force is given. Before you retire a CA wait two days:
nobody can check whether every peel knows the new one.`,
		Args: words("word keys or ca"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.What = api.Rotatable(args[0])
			return a.rotation(cmd, q, api.AuthRetire, "the former are no longer valid")
		},
	}
	cmd.Flags().BoolVar(&q.Force, "force", false,
		"retire keys although credentials of the former keys are in use: they stop working")
	return cmd
}

func (a *app) rotation(
	cmd *cobra.Command, q api.RotateRequest, e api.Endpoint[api.RotateRequest, api.RotateAnswer], done string,
) error {
	if q.What != api.RotateKeys && q.What != api.RotateCA {
		return usageError("cannot replace %q: it is keys or ca", q.What)
	}
	return a.withClient(func(client *api.Client) error {
		answer, err := e.Ask(cmd.Context(), client, q)
		if err != nil {
			return err
		}
		return a.printDone(answer, string(q.What), "%s: %s", q.What, done)
	})
}
