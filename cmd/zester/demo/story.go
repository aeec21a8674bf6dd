package demo

import (
	"bytes"
	"fmt"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// A story is what the demo commits.
type story struct {
	summary string            // of the change, for the headline
	message string            // of its commit
	expr    string            // the peels it is for
	entry   string            // a schedule entry that it adds, with return_job
	change  map[string][]byte // files of the change
	broken  map[string][]byte // files that are to be refused
	mended  map[string][]byte // the same files as they were before
}

const webSchedule = `schedule:
  cert_check:
    module: cmd.run
    args:
      command: "echo certificates: ok"
    interval: 3h              # was 6h
    splay: 30m
    return_job: true
  queue_depth:                # new
    module: cmd.run
    args:
      command: "echo queue is empty"
    interval: 2s
    return_job: true
  disk_check:
    interval: 10m
    splay: 2m
`

// story is about the example, or about a repo of one's own, of which nothing is known: there it is told in files that
// the clone gets beside what it has.
func (s *stage) story() story {
	if s.o.Repo != "" {
		return ownStory(s.o.Peels[0])
	}
	const file = "settings/web/schedule.yaml"
	return story{
		summary: "one entry changed, one removed, one added, for web-* only",
		message: "Web: check certificates twice as often, watch the queue",
		expr:    "web-*", entry: "queue_depth",
		change: map[string][]byte{file: []byte(webSchedule)},
		broken: map[string][]byte{file: bytes.ReplaceAll([]byte(webSchedule), []byte("interval: 2s"), []byte("intervall: 2s"))},
		mended: map[string][]byte{file: []byte(webSchedule)},
	}
}

func ownStory(peel target.PeelID) story {
	const top, file = "top.d/zester_demo.yaml", "settings/zester_demo.yaml"
	entry := []byte("schedule:\n  zester_demo:\n    module: test.ping\n    interval: 2s\n    return_job: true\n")
	return story{
		summary: "one entry added, for " + string(peel) + " only, in the clone",
		message: "An entry of the demo", expr: string(peel), entry: "zester_demo",
		change: map[string][]byte{top: fmt.Appendf(nil, "base:\n  L@%s: [zester_demo]\n", peel), file: entry},
		broken: map[string][]byte{file: bytes.ReplaceAll(entry, []byte("interval: 2s"), []byte("intervall: 2s"))},
		mended: map[string][]byte{file: entry},
	}
}
