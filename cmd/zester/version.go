package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/peel/build"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// version is the data of `zester version`.
type version struct {
	build.Info
	Protocol int `json:"protocol"` // of the messages between masters and peels
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the commit that it was built from",
		Args:  words(),
		RunE: func(*cobra.Command, []string) error {
			v := version{Info: build.Read(), Protocol: wire.Version}
			return a.print(v, []string{v.Version}, func() error {
				_, err := fmt.Fprintln(a.out, v)
				return err
			})
		},
	}
}

// String returns the version in one line. A part that the build does not know is left out.
func (v version) String() string {
	line := "zester " + v.Version
	if v.Commit != "" {
		line += ", commit " + v.Commit
	}
	if v.Date != "" {
		line += " of " + v.Date
	}
	return fmt.Sprintf("%s, %s, protocol %d", line, v.Go, v.Protocol)
}
