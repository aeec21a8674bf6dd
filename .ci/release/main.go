// Command release makes parts of a release for .ci/package, .ci/image and .ci/site. It imports the standard library and
// the guide.
//
//	release licences PROGRAM…             prints the licences of the modules in the programs, with their texts
//	release topics                        prints the names of the pages of the guide in their order
//	release installer SCRIPT KEY          prints install.sh with the public key in the file KEY, if there is one
//	release bom FILE                      adds the licences of the modules to a bill of materials in CycloneDX
//	release man PROGRAM SUMMARY           prints a manual page of a daemon from its --help
//	release image NAME VERSION FILE DIR…  writes an OCI archive with the program NAME of each DIR, named by its architecture
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "topics":
		_, err := fmt.Println(strings.Join(guide.Topics(), "\n"))
		return err
	case len(args) > 1 && args[0] == "licences":
		return printLicences(os.Stdout, args[1:])
	case len(args) == 3 && args[0] == "installer":
		return printInstaller(os.Stdout, args[1], args[2])
	case len(args) == 2 && args[0] == "bom":
		return addLicences(args[1])
	case len(args) == 3 && args[0] == "man":
		return printManual(os.Stdout, args[1], args[2])
	case len(args) > 4 && args[0] == "image":
		return writeImage(args[1], args[2], args[3], args[4:])
	}
	return errors.New("usage: release topics | licences PROGRAM… | installer SCRIPT KEY | bom FILE | man PROGRAM SUMMARY | " +
		"image NAME VERSION FILE DIR…")
}
