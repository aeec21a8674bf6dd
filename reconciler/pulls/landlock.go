package pulls

import (
	"fmt"
	"os"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
)

// netABI is the version of Landlock, since Linux 6.7, that confines TCP.
const netABI = 4

// unconfined says what a kernel lets the process for pull requests do besides its work, "" if nothing. Its arguments
// are the version of Landlock, and the error of asking for it.
func unconfined(abi int, err error) string {
	switch {
	case err != nil:
		return "it may read the files of the master's user and connect to any port: the kernel has no Landlock"
	case abi < netABI:
		return fmt.Sprintf("it may connect to any port: Landlock of this kernel has version %d, and %d confines TCP",
			abi, netABI)
	}
	return ""
}

// confineFetch lets this process read what fetching needs, write in its store alone, and connect to no TCP port but
// those of the repository. A kernel without Landlock lets it do everything.
func confineFetch(o gitrepo.Options) error {
	needs, err := o.Reach()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the store of pull requests: %w", err)
	}
	rules := readable(zones, needs.Read)
	rules = append(rules, landlock.RWDirs(o.Dir), landlock.RWFiles(os.DevNull))
	for _, port := range needs.Ports {
		rules = append(rules, landlock.ConnectTCP(port))
	}
	return restrict(rules)
}

// confineReview lets this process read the commits that it has fetched and nothing else: no credential, no network.
func confineReview(o gitrepo.Options) error {
	needs, err := o.Reach()
	if err != nil {
		return err
	}
	commits := []string{o.Dir}
	if len(needs.Ports) == 0 {
		commits = needs.Read // of a repository on this host
	}
	return restrict(readable(zones, commits))
}

// zones are the local time zone and those of schedules.
var zones = []string{"/etc/localtime", "/usr/share/zoneinfo"}

// readable returns the rules that let files and directories be read, without those that do not exist.
func readable(paths ...[]string) (rules []landlock.Rule) {
	for _, path := range slices.Concat(paths...) {
		info, err := os.Stat(path)
		switch {
		case err != nil: // does not exist
		case info.IsDir():
			rules = append(rules, landlock.RODirs(path))
		default:
			rules = append(rules, landlock.ROFiles(path))
		}
	}
	return rules
}

func restrict(rules []landlock.Rule) error {
	if err := landlock.V7.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("cannot confine a process for pull requests: %w", err)
	}
	return nil
}
