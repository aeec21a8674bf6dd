package api_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestEachRequestThatChangesNothingSaysWhatItShows(t *testing.T) {
	shown := api.Showings()
	for _, row := range api.Verbs() {
		_, verb, _ := strings.Cut(row, ".")
		if _, says := shown[row]; says != wire.Reads(verb) {
			t.Errorf("%s changes nothing: %t, and says what it shows: %t; declare it with reading in endpoints.go, or with endpoint",
				row, wire.Reads(verb), says)
		}
	}
}
