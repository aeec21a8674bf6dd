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
	"github.com/seed-c01c3da5/zester/master/mcp"
)

func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Give an assistant tools to read the fleet",
		Long: `mcp serves tools to an assistant over stdin and stdout, by the Model Context
Protocol. The assistant's program starts it; zester guide assistants shows how
to add it.

The assistant works in your name and with your credential. Every call of a tool
is in the audit log (zester audit list --action agent.call). What hosts and the
config repo say is marked as data that the assistant must not obey; nothing can
make sure that it does not.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				return usageError("stdin is a terminal: the program of an assistant starts zester mcp and sends requests there; zester guide assistants shows how")
			}
			return a.withClient(func(client *api.Client) error { return a.serveMCP(cmd.Context(), client, cmd.InOrStdin()) })
		},
	}
}

// serveMCP serves one assistant until it ends the session.
func (a *app) serveMCP(ctx context.Context, client *api.Client, in io.Reader) error {
	server := mcp.New(mcp.Options{Ask: client.Ask, Guide: guide.Pages, Version: built().Version})
	err := server.Run(ctx, &sdk.IOTransport{Reader: mcp.Messages(in), Writer: keptOpen{a.out}})
	if errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) {
		return nil
	}
	return err
}

// A keptOpen is stdout, which the end of a session does not close.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }
