package main

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/notify"
)

func TestReceiversOfAlertsAndOfPings(t *testing.T) {
	chat := Receiver{Name: "chat", Provider: notify.ReceiverWebhook, URL: "https://chat.example"}
	checks := Receiver{Name: "checks", Provider: healthchecks, URL: "https://hc.example", Entries: "backup*"}
	var o master.Options
	if err := (&Config{Messages: Messages{Alerts: Alerts{Receivers: []Receiver{chat, checks}}}}).alerts(&o); err != nil {
		t.Fatal(err)
	}
	if len(o.Alerts.Receivers) != 1 || len(o.Alerts.Pings) != 1 || o.Alerts.Pings[0].Name() != "checks" || !o.Alerts.Pings[0].Has("backup-db") || o.Alerts.Pings[0].Has("report") {
		t.Errorf("%+v", o.Alerts)
	}
	for want, change := range map[string]func(){
		`cannot send alerts to "chat": two receivers have this name`:         func() { checks.Name = "chat" },
		`cannot send alerts to "chat": entries is for healthchecks`:          func() { chat.Entries = "*" },
		`cannot send pings to "checks": healthchecks has url or url_file`:    func() { checks.Key = "/etc/zester/key" },
		`cannot send pings to "checks": entries is required`:                 func() { checks.Entries = "" },
		`cannot send pings to "checks": one of url and url_file is required`: func() { checks.URL = "" },
	} {
		was, before := chat, checks
		change()
		err := (&Config{Messages: Messages{Alerts: Alerts{Receivers: []Receiver{chat, checks}}}}).alerts(&o)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
		chat, checks = was, before
	}
}
