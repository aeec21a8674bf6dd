package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
)

func (a *app) rotateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate keys|ca",
		Short: "Replace the signing keys, or the CA of the listeners",
		Long: `rotate keys makes the keys anew that sign credentials, rotate ca the authority that signs the certificates of the masters'
listeners. The former stay valid until zester auth retire, so nobody is locked out. Peels take up the new ones by
themselves, in a day; whoever else has a credential of zester auth issue or zester auth user add needs another one
(--again). Other masters with a copy of the keys need the new ones: copy the folder auth of the data directory. What was
interrupted locks nobody out either, and is completed by doing it again.`,
		Args: words("word keys or ca"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.rotation(cmd, api.RotateRequest{What: api.Rotatable(args[0])}, (*api.Client).Rotate, "replaced; the former stay valid until zester auth retire "+args[0])
		},
	}
}

func (a *app) retireCommand() *cobra.Command {
	q := api.RotateRequest{}
	cmd := &cobra.Command{
		Use:   "retire keys|ca",
		Short: "Stop trusting the former signing keys, or the former CA",
		Long: `retire ends what zester auth rotate has left valid. Former keys whose credentials are in use are refused, with the names of
who has them, unless it gets --force. Of the former authority nobody can say who knows no other: wait two days.`,
		Args: words("word keys or ca"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.What = api.Rotatable(args[0])
			return a.rotation(cmd, q, (*api.Client).Retire, "the former are no longer valid")
		},
	}
	cmd.Flags().BoolVar(&q.Force, "force", false, "also if credentials of the former keys are in use: they stop working")
	return cmd
}

func (a *app) rotation(cmd *cobra.Command, q api.RotateRequest, do func(*api.Client, context.Context, api.RotateRequest) (*api.RotateAnswer, error), done string) error {
	if q.What != api.RotateKeys && q.What != api.RotateCA {
		return usageError("cannot replace %q: it is keys or ca", q.What)
	}
	return a.withClient(func(client *api.Client) error {
		answer, err := do(client, cmd.Context(), q)
		if err != nil {
			return err
		}
		return a.print(answer, []string{string(q.What)}, func() error {
			fmt.Fprintf(a.errOut, "%s: %s\n", q.What, done)
			return nil
		})
	})
}
