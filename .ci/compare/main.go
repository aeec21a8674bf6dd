// Command compare compares the reports that "zester swarm -o json" wrote into two folders, and prints how each figure
// changed. It exits with 1 if a figure is worse beyond noise.
//
//	compare OLD NEW
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folders []string) error {
	if len(folders) != 2 {
		return errors.New("usage: compare OLD NEW")
	}
	before, err := read(folders[0])
	if err != nil {
		return err
	}
	now, err := read(folders[1])
	if err != nil {
		return err
	}
	all := swarm.Compare(before, now)
	if len(all) == 0 {
		return errors.New("the reports have no figure in common")
	}
	if err := swarm.WriteChanges(os.Stdout, all); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(c swarm.Change) bool { return c.Worse }) {
		return errors.New("figures are worse beyond noise")
	}
	return nil
}

func read(folder string) (all []*swarm.Report, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no reports (*.json) in %s", folder)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := &swarm.Report{}
		if err := json.Unmarshal(data, r); err != nil {
			return nil, fmt.Errorf("cannot read the report %s: %w", file, err)
		}
		all = append(all, r)
	}
	return all, nil
}
