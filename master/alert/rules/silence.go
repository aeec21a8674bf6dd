package rules

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// silence sets a.Silence. It returns the number of peels to which no silence applies, and the kinds of their troubles.
// An alert about break-glass has no silence: who uses the credential could hide that.
func (s *stepper) silence(a *Alert, g *group, peels []target.PeelID) (loud int, kinds kindSet) {
	a.Silence = ""
	var ofPeels []api.Silence
	for _, silence := range s.Silences {
		if a.Trouble == verdict.BreakGlass {
			break
		}
		if _, is := strings.CutPrefix(silence.Match, peelPrefix); is {
			ofPeels = append(ofPeels, silence)
		} else if api.SilenceMatches(silence.Match, a.ID(), a.Rule, a.Subject()) {
			a.Silence = silence.ID
		}
	}
	last := ""
	for _, p := range peels {
		i := slices.IndexFunc(ofPeels, func(q api.Silence) bool { return matchesPeel(q.Match, p) })
		if i < 0 {
			loud++
			kinds |= g.peels[p].kinds
		} else {
			last = ofPeels[i].ID
		}
	}
	if last != "" && loud < max(1, g.rule.MinPeels.Of(g.rule.Peels)) {
		a.Silence = cmp.Or(a.Silence, last)
	}
	return loud, kinds
}

const peelPrefix = "peel:"

// CheckMatch returns an error if match is not valid in a silence.
func CheckMatch(match string) error {
	glob := strings.TrimPrefix(match, peelPrefix)
	if _, err := path.Match(glob, ""); err != nil || glob == "" || len(match) > api.MaxSilenceMatch {
		return fmt.Errorf("%.60q is not a glob like 'backups/*', 'backup-db' or 'peel:web-*' of at most %d bytes",
			match, api.MaxSilenceMatch)
	}
	if strings.HasSuffix(match, string(verdict.BreakGlass)) {
		return fmt.Errorf("no silence holds for %s, which ends an hour after the last use", verdict.BreakGlass)
	}
	return nil
}

func matchesPeel(match string, id target.PeelID) bool {
	ok, _ := path.Match(strings.TrimPrefix(match, peelPrefix), string(id))
	return ok
}
