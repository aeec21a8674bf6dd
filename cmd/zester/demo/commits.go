package demo

import (
	"bytes"
	"fmt"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// commits are the commits of the demo.
type commits struct {
	summary  string            // of the change, for the headline
	message  string            // of the commit with the change
	expr     string            // selects the peels of the change
	entry    string            // a schedule entry that it adds, with return_job
	change   map[string][]byte // files of the change
	broken   map[string][]byte // files with a mistake, which are refused
	repaired map[string][]byte // the same files without the mistake
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

// commits returns the commits for the example, or for the clone of another repo, to which they only add files.
func (s *session) commits() commits {
	if s.o.Repo != "" {
		return commitsInClone(s.o.Peels[0])
	}
	const file = "settings/web/schedule.yaml"
	return commits{
		summary: "one entry changed, one removed, one added, for web-* only",
		message: "Web: check certificates twice as often, watch the queue",
		expr:    "web-*", entry: "queue_depth",
		change: map[string][]byte{file: []byte(webSchedule)},
		broken: map[string][]byte{
			file: bytes.ReplaceAll([]byte(webSchedule), []byte("interval: 2s"), []byte("intervall: 2s")),
		},
		repaired: map[string][]byte{file: []byte(webSchedule)},
	}
}

func commitsInClone(peel target.PeelID) commits {
	const top, file = "top.d/zester_demo.yaml", "settings/zester_demo.yaml"
	entry := []byte("schedule:\n  zester_demo:\n    module: test.ping\n    interval: 2s\n    return_job: true\n")
	return commits{
		summary: "one entry added, for " + string(peel) + " only, in the clone",
		message: "An entry of the demo", expr: string(peel), entry: "zester_demo",
		change:   map[string][]byte{top: fmt.Appendf(nil, "base:\n  L@%s: [zester_demo]\n", peel), file: entry},
		broken:   map[string][]byte{file: bytes.ReplaceAll(entry, []byte("interval: 2s"), []byte("intervall: 2s"))},
		repaired: map[string][]byte{file: entry},
	}
}

// stateRef is the settings file with the state of the demo.
const stateRef = "zester_demo_state"

// stateFiles returns the files that give a peel the state of one file on its host.
func stateFiles(peel target.PeelID, path string) map[string][]byte {
	return map[string][]byte{
		"top.d/" + stateRef + ".yaml": fmt.Appendf(nil, "base:\n  L@%s: [%s]\n", peel, stateRef),
		"settings/" + stateRef + ".yaml": fmt.Appendf(nil,
			"states:\n  motd:\n    file.managed: {path: %s, content: \"This is {{peel}}.\\n\", template: true}\n",
			path),
	}
}

// brokenEntry is the entry of the demo whose runs fail.
const brokenEntry = "zester_demo_backup"

// brokenFiles returns the files that give a peel the entry.
func brokenFiles(peel target.PeelID) map[string][]byte {
	return map[string][]byte{
		"top.d/" + brokenEntry + ".yaml": fmt.Appendf(nil, "base:\n  L@%s: [%s]\n", peel, brokenEntry),
		"settings/" + brokenEntry + ".yaml": []byte("schedule:\n  " + brokenEntry +
			": {module: cmd.run, args: {command: \"exit 1\"}, interval: 2s}\n"),
	}
}
