package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// version is the data of `zester version`.
type version struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Protocol int    `json:"protocol"` // of the messages between masters and peels
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  words(),
		RunE: func(*cobra.Command, []string) error {
			v := built()
			return a.print(v, []string{v.Version}, func() error {
				_, err := fmt.Fprintf(a.out, "zester %s, %s, protocol %d\n", v.Version, v.Go, v.Protocol)
				return err
			})
		},
	}
}

// built returns the version of this program.
func built() version {
	v := version{Version: "unknown", Protocol: wire.Version}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version, v.Go = info.Main.Version, info.GoVersion
	}
	return v
}
