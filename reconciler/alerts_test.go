package reconciler

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/policy"
)

// The master that leads the alerts reads the rules of the revision in force from the bucket of the reconciler.
func TestAlertRulesOfTheRevisionInForceAreStored(t *testing.T) {
	files := siteFiles()
	files["zester.yaml"] = text("alerts: {night: {on: [failed], for: 10m}}\n")
	inBubble(t, files, func(b *bench) {
		b.start()
		b.peel("web1", nil)
		holds := func(want []policy.Alert) {
			b.t.Helper()
			b.after(5 * time.Second)
			b.now()
			got, _, err := policy.LoadAlerts(b.t.Context(), b.term.rollout)
			if err != nil || !policy.EqualAlerts(got, want) {
				b.t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		night := []policy.Alert{{Name: "night", On: []policy.Trouble{policy.Failed}, For: 10 * time.Minute, MinPeels: policy.Quantity{Count: 1, Percent: 100}}}
		holds(night)
		b.commit("a mistake", map[string]string{"zester.yaml": "alerts: {night: {on: [faild]}}\n"})
		holds(night)
		b.commit("no rules", map[string]string{"zester.yaml": ""})
		holds(nil)
	})
}
