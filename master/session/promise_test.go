package session_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/session"
)

func TestSecurityPrintsHowLongASessionIsValid(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("It ends without requests after %.0f minutes, in any case after %.0f hours",
		session.DefaultIdle.Minutes(), session.DefaultLife.Hours())
	if !strings.Contains(string(text), want) {
		t.Errorf("SECURITY.md does not say %q", want)
	}
}
