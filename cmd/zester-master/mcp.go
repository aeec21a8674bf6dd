package main

import (
	"fmt"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/peel/build"
)

// options returns the options of /mcp, nil if it is not served.
func (c MCP) options() (*mcp.Options, error) {
	switch {
	case c.Allow != "" && c.Allow != "dispatch":
		return nil, fmt.Errorf("cannot allow assistants %q: mcp.allow is dispatch, or empty", c.Allow)
	case c.Limit < 0:
		return nil, fmt.Errorf("cannot hold actions on more than %d peels: mcp.limit is 1 or more, or 0 for %d",
			c.Limit, mcp.DefaultLimit)
	case !c.Serve:
		return nil, nil
	}
	version := build.Read().Version
	return &mcp.Options{Act: c.Allow != "", Limit: c.Limit, Guide: guide.Pages, Version: version}, nil
}
