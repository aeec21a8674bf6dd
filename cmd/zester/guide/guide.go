// Package guide has the pages of the guide, which zester guide prints and assistants read: [Pages], and [Topics] in
// their order.
package guide

import "embed"

// Pages has a file TOPIC.md for each topic.
//
//go:embed *.md
var Pages embed.FS

// Topics returns the names of the pages in the order in which a newcomer reads them.
func Topics() []string {
	return []string{
		"tour", "install", "repo", "review", "schedules", "entry", "states", "jobs", "peels", "alerts",
		"running", "ha", "backup", "api", "console", "login", "access", "assistants",
		"missed", "held", "leaked", "lost", "rename", "cron", "salt", "flux", "words",
	}
}
