package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A connection holds the flags that say which bus to connect to, and with which credential.
type connection struct {
	url, creds, ca, dataDir, name string

	login  string // where zester login has made the credential; empty: it has not
	passed string // the current context, if a data directory is used instead of it; else empty

	flags *pflag.FlagSet // of the command that runs
}

// applyContext fills in the URL of the context, unless a URL or a data directory was given. The credential and CA of
// the context are used only if none was given by --creds, --ca or their variables.
func (c *connection) applyContext() error {
	named := c.given("context")
	if named && c.given("url") {
		return usageError("cannot use --context and --url together: a context is the URL of a bus, with a credential")
	}
	if c.url != "" && !named {
		return nil
	}

	config, err := readConfig()
	if err != nil {
		return err
	}
	name := c.name
	switch {
	case name != "":
	case c.given("data-dir"), os.Getenv("ZESTER_DATA_DIR") != "":
		if c.passed = config.Current; c.passed == localContext {
			c.passed = ""
		}
	default:
		name = config.Current
	}

	found, err := config.find(name)
	if err != nil {
		return err
	}
	if found == nil {
		found = &busContext{} // the master on this host, also if ZESTER_URL names another
	}
	c.url = found.URL
	if c.creds == "" {
		c.login = found.Login
	}
	c.creds = cmp.Or(c.creds, found.Creds)
	c.ca = cmp.Or(c.ca, found.CA)
	return nil
}

// notUsed returns before and a sentence that says which context is not used because a data directory is given. It is
// empty if there is none.
func (c *connection) notUsed(before string) string {
	if c.passed == "" {
		return ""
	}
	by := "ZESTER_DATA_DIR is set"
	if c.given("data-dir") {
		by = "--data-dir is given"
	}
	return fmt.Sprintf("%s%s, so the context %s is not used", before, by, c.passed)
}

// given reports whether the command line has the flag.
func (c *connection) given(flag string) bool { return c.flags != nil && c.flags.Changed(flag) }

// client connects to the bus that the flags name, else to the bus of the context, else to the master on this host.
func (a *app) client() (*api.Client, error) {
	o, err := a.bus()
	if err != nil {
		return nil, err
	}
	return api.Connect(o)
}

// bus returns the options for that connection. A credential that was given is used with each bus, also with the one of
// this host, whose own credential may do more.
func (a *app) bus() (api.ClientOptions, error) {
	c := &a.connect
	if err := c.applyContext(); err != nil {
		return api.ClientOptions{}, err
	}
	if strings.HasPrefix(c.url, "http") {
		return api.ClientOptions{}, usageError(
			"cannot connect to %s: a bus is at tls://HOST:PORT; "+
				"http is for programs that use the REST API with a token",
			c.url,
		)
	}
	if c.url != "" && c.creds == "" {
		return api.ClientOptions{}, usageError("cannot connect to %s without a credential: give --creds FILE", c.url)
	}

	o := api.ClientOptions{URL: c.url}
	if c.url == "" {
		var err error
		if o, err = localBus(c.dataDir); err != nil {
			if f, ok := errors.AsType[*failure](err); ok && c.notUsed("") != "" {
				f.hint = c.notUsed("") + ": --context " + c.passed + " uses it"
			}
			return api.ClientOptions{}, err
		}
	}
	o.CA = cmp.Or(c.ca, o.CA)
	if c.creds == "" {
		return o, nil
	}

	creds, err := os.ReadFile(c.creds)
	if err != nil {
		return api.ClientOptions{}, &failure{
			code: exitDenied,
			err:  fmt.Errorf("cannot read the credential: %w", err),
			hint: hintCredential,
		}
	}
	o.Creds = creds
	if c.login != "" {
		o.File = c.creds
	}
	return o, nil
}

// localBus returns the options for the master with that data directory.
func localBus(dataDir string) (api.ClientOptions, error) {
	info, err := api.ReadRunInfo(dataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = &failure{
			code: exitFailed, err: fmt.Errorf("%w with the data directory %s", errNoMaster, dataDir),
			hint: noMasterHint(dataDir),
		}
	case errors.Is(err, fs.ErrPermission):
		err = &failure{
			code: exitDenied, err: err,
			hint: "the master belongs to another user: ask for a credential, and use it with --url and --creds",
		}
	}
	return api.ClientOptions{URL: info.URL, Creds: []byte(info.Creds), CA: info.CA}, err
}

// systemDataDir is the data directory of a master that is installed as a service.
const systemDataDir = "/var/lib/zester"

func noMasterHint(dataDir string) string {
	hint := "name one with --data-dir, or a bus with --url and --creds; "
	if dataDir == systemDataDir {
		return hint + "systemctl status zester-master says whether the one of this host runs"
	}
	return hint + "zester demo shows everything on this machine"
}

// dataDir returns the default data directory: the one of the service where this user can use its master, else the
// user's own.
func dataDir(system string) string {
	if _, err := api.ReadRunInfo(system); err == nil {
		return system
	}
	return daemon.DataDir()
}

// online returns a RunE that connects and calls do.
func (a *app) online(do func(*cobra.Command, *api.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.withClient(func(client *api.Client) error { return do(cmd, client, args) })
	}
}

// listCommand returns a command that prints the list in the reply to a request as a table.
func listCommand[A, T any](
	a *app, cmd cobra.Command, e api.Endpoint[api.None, A], list func(*A) []T, rows func([]T) table,
) *cobra.Command {
	return listed(a, cmd, func(ctx context.Context, client *api.Client) ([]T, error) {
		reply, err := e.Ask(ctx, client, api.None{})
		if err != nil {
			return nil, err
		}
		return list(reply), nil
	}, rows)
}

// listed is a command that shows a list.
func listed[T any](
	a *app, cmd cobra.Command, all func(context.Context, *api.Client) ([]T, error), rows func([]T) table,
) *cobra.Command {
	cmd.Args = words()
	cmd.RunE = a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
		list, err := all(cmd.Context(), client)
		if err != nil {
			return err
		}
		return a.show(list, rows(list))
	})
	return &cmd
}

// onPeel is like online, for a command whose first argument is the ID of a peel. do gets the arguments after the ID.
func (a *app) onPeel(do func(*cobra.Command, *api.Client, target.PeelID, []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		id, err := target.ParsePeelID(args[0])
		if err != nil {
			return usageError("%w", err)
		}
		return a.withClient(func(client *api.Client) error { return do(cmd, client, id, args[1:]) })
	}
}

// withClient connects, calls do, and closes the connection.
func (a *app) withClient(do func(*api.Client) error) error {
	client, err := a.client()
	if err != nil {
		if a.connect.login != "" {
			err = hinted(err, api.CodeDenied, hintLogin)
		}
		return err
	}
	defer client.Close()
	return a.use(client, do)
}

// use calls do, and renews a login meanwhile.
func (a *app) use(client *api.Client, do func(*api.Client) error) error {
	defer a.keepLogin(client)()
	client.OnWait = func(err error) {
		fmt.Fprintf(a.errOut, "it %v; this command goes on when somebody has decided\n", plain(err.Error()))
	}
	err := do(client)
	if err != nil && client.Ended() && a.connect.login != "" {
		err = hinted(err, api.CodeDenied, hintLogin)
	}
	return err
}

var errNoMaster = errors.New("no master runs")

// awaitClient connects, and tries again while no master runs, until ctx ends.
func (a *app) awaitClient(ctx context.Context, line *progress) (*api.Client, error) {
	for first := true; ; first = false {
		client, err := a.client()
		if !errors.Is(err, errNoMaster) && api.CodeOf(err) != api.CodeUnreachable {
			return client, err
		}
		line.show("waiting: %s", err)
		if first && line.width == 0 {
			fmt.Fprintln(a.errOut, "waiting:", plain(err.Error()))
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, err
		case <-time.After(askInterval):
		}
	}
}

// askInterval is the time between two requests of a command that waits.
const askInterval = 100 * time.Millisecond

const hintCredential = "zester auth issue makes credentials, on the host that holds the keys"

// hinted adds a hint to an error of that code, unless the error has a hint.
func hinted(err error, code api.Code, hint string) error {
	if known, _ := errors.AsType[*failure](err); api.CodeOf(err) != code || known != nil && known.hint != "" {
		return err
	}
	f := failureOf(err)
	f.hint = hint
	return f
}

// failureOf returns the failure for an error: its exit code, and a hint if one is known.
func failureOf(err error) *failure {
	f := &failure{code: exitFailed, err: err}
	switch {
	case errors.Is(err, context.Canceled):
		f.code, f.err = exitInterrupted, errors.New("interrupted")
	case api.CodeOf(err) == api.CodeWaits:
		f.code = exitWaits
	case api.CodeOf(err) == api.CodeDenied:
		f.code, f.hint = exitDenied, hintCredential
	case api.CodeOf(err) == api.CodeForbidden:
		f.code, f.hint = exitDenied, "zester auth user list shows the limits of each operator"
	case isSyntax(err):
		f.code = exitUsage
	case api.CodeOf(err) == api.CodeUnreachable:
		f.hint = "is the master running? --url and --data-dir say where to find it"
	}
	if err := f.err; err != nil && strings.Contains(err.Error(), "has no permission to see secrets") {
		f.hint = "zester auth user add NAME --secrets makes a user who may see them, with --creds NAME.creds; " +
			"local, the user of a master's host, cannot"
	}
	if bus, ok := errors.AsType[*dial.BusError](err); ok && bus.Hint != "" {
		f.hint = bus.Hint
	}
	return f
}

// isSyntax reports whether an error is about the text of a target expression, found here or by a master.
func isSyntax(err error) bool {
	_, here := errors.AsType[*target.SyntaxError](err)
	return here || api.CodeOf(err) == api.CodeInvalid && strings.Contains(err.Error(), "cannot parse target ")
}
