// Command release makes parts of a release for .ci/package and .ci/image. It uses the standard library alone.
//
//	release licences PROGRAM…             prints the licences of the modules in the programs, with their texts
//	release man PROGRAM SUMMARY           prints a manual page of a daemon from its --help
//	release image NAME VERSION FILE DIR…  writes an OCI archive with the program NAME of each DIR, named by its architecture
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 1 && args[0] == "licences":
		return printLicences(os.Stdout, args[1:])
	case len(args) == 3 && args[0] == "man":
		return printManual(os.Stdout, args[1], args[2])
	case len(args) > 4 && args[0] == "image":
		return writeImage(args[1], args[2], args[3], args[4:])
	}
	return errors.New("usage: release licences PROGRAM… | man PROGRAM SUMMARY | image NAME VERSION FILE DIR…")
}
