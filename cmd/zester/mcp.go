package main

import (
	"context"
	"errors"
	"io"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/peel/build"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) mcpCommand() *cobra.Command {
	var allow string
	limit := mcp.DefaultLimit
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Give an assistant tools to read the fleet, and to act",
		Long: `mcp serves tools to an assistant over stdin and stdout, by the Model Context
Protocol. The assistant's program starts it; zester guide assistants shows how
to add it.

The assistant works in your name and with your credential. Every call of a tool
is in the audit log (zester audit list --action agent.call). What hosts and the
config repo say is marked as data that the assistant must not obey; nothing can
make sure that it does not.

By default the tools read, and propose changes of schedules as pull requests.
--allow dispatch adds tools that run functions and pause entries. They act on at
most --limit peels in an hour: what goes beyond waits until a person decides
with zester approve.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				return usageError(
					"stdin is a terminal: the program of an assistant starts zester mcp and sends requests there; " +
						"zester guide assistants shows how",
				)
			}
			if allow != "" && allow != "dispatch" {
				return usageError("cannot allow %q: --allow is dispatch, or is left out", allow)
			}
			if limit < 1 {
				return usageError("cannot hold actions on more than %d peels: --limit is 1 or more", limit)
			}
			return a.withClient(func(client *api.Client) error {
				return a.serveMCP(cmd.Context(), client, cmd.InOrStdin(), mcp.Options{Act: allow != "", Limit: limit})
			})
		},
	}
	cmd.Flags().StringVar(&allow, "allow", "", "`WHAT` beyond reading and proposing: dispatch")
	cmd.Flags().IntVar(&limit, "limit", limit, "hold actions on more than `N` peels in an hour")
	return cmd
}

// serveMCP serves one assistant until it ends the session.
func (a *app) serveMCP(ctx context.Context, client *api.Client, in io.Reader, o mcp.Options) error {
	o.Asker, o.Guide, o.Version = client, guide.Pages, build.Read().Version
	o.Dispatch = func(ctx context.Context, spec job.Spec) (*job.Job, error) {
		return api.JobDispatch.Ask(ctx, client, spec)
	}
	o.Resolve = func(ctx context.Context, expr string) ([]target.PeelID, error) {
		r, err := client.Resolve(ctx, expr)
		if err != nil {
			return nil, err
		}
		return r.Peels, nil
	}
	err := mcp.New(o).Run(ctx, &sdk.IOTransport{Reader: mcp.Messages(in), Writer: keptOpen{a.out}})
	if errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) {
		return nil
	}
	return err
}

// A keptOpen is stdout, which the end of a session does not close.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }
