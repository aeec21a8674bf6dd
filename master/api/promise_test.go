package api_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
)

func TestSecurityPrintsTheBoundsOfHeldActions(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("After %.0f hours nobody can approve it any more.", api.HoldLifetime.Hours()),
		fmt.Sprintf("Texts of an assistant are short: %d KiB of arguments", api.HoldMaxArgs>>10),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("SECURITY.md does not say %q", want)
		}
	}
}
