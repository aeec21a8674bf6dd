package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/master/api"
)

// A connection says which bus to ask, and as whom.
type connection struct {
	url, creds, ca, dataDir string
}

func (c *connection) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.url, "url", os.Getenv("ZESTER_URL"), "ask the bus at `URL` (default: the master on this host)")
	fs.StringVar(&c.creds, "creds", os.Getenv("ZESTER_CREDS"), "use the credential in `FILE`")
	fs.StringVar(&c.ca, "ca", os.Getenv("ZESTER_CA"), "check the bus against the certificates in `FILE`")
	dir := os.Getenv("ZESTER_DATA_DIR")
	if dir == "" {
		dir = daemon.DataDir()
	}
	fs.StringVar(&c.dataDir, "data-dir", dir, "find the master on this host by its data `DIR`")
}

// client connects by the flags, or else to the master on this host.
func (a *app) client() (*api.Client, error) {
	c := a.connect
	if c.url != "" {
		if c.creds == "" {
			return nil, usageError("cannot ask %s without --creds: the file with your credential", c.url)
		}
		creds, err := os.ReadFile(c.creds)
		if err != nil {
			return nil, &failure{code: exitDenied, err: fmt.Errorf("cannot read the credential: %w", err)}
		}
		return api.Connect(api.ClientOptions{URL: c.url, Creds: creds, CA: c.ca})
	}
	info, err := api.ReadRunInfo(c.dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{
			code: exitFailed, err: fmt.Errorf("no master runs with the data directory %s", c.dataDir),
			hint: "name one with --data-dir, or a bus with --url and --creds; zester demo shows everything on this machine",
		}
	}
	if err != nil {
		return nil, err
	}
	return api.Connect(api.ClientOptions{URL: info.URL, Creds: []byte(info.Creds), CA: info.CA})
}

// exitCode is the code for an error that is not a [failure].
func exitCode(err error) int {
	switch api.CodeOf(err) {
	case api.CodeDenied:
		return exitDenied
	default:
		return exitFailed
	}
}

// hint says what to do about an error, if that can be known.
func hint(err error) string {
	switch api.CodeOf(err) {
	case api.CodeDenied:
		return "zester auth issue makes credentials, on the host that holds the keys"
	case api.CodeUnreachable:
		return "is the master running? --url and --data-dir say where it is looked for"
	default:
		return ""
	}
}
