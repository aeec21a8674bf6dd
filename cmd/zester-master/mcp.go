package main

import (
	"fmt"
	"runtime/debug"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
	"github.com/seed-c01c3da5/zester/master/mcp"
)

// options returns the options of /mcp, nil if it is not served.
func (c MCP) options() (*mcp.Options, error) {
	switch {
	case c.Allow != "" && c.Allow != "dispatch":
		return nil, fmt.Errorf("cannot allow assistants %q: mcp.allow is dispatch, or empty", c.Allow)
	case c.Limit < 0:
		return nil, fmt.Errorf("cannot hold actions on more than %d peels: mcp.limit is 1 or more, or 0 for %d", c.Limit, mcp.DefaultLimit)
	case !c.Serve:
		return nil, nil
	}
	o := &mcp.Options{Act: c.Allow != "", Limit: c.Limit, Guide: guide.Pages}
	if info, ok := debug.ReadBuildInfo(); ok {
		o.Version = info.Main.Version
	}
	return o, nil
}
