package main

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
)

func TestTheDoctorOpensTheConsole(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer s.Close()
	at := strings.TrimPrefix(s.URL, "https://")
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	beside, elsewhere := api.ClientOptions{URL: "tls://127.0.0.1:1"}, api.ClientOptions{URL: "tls://bus.example.com:4222"}
	for name, c := range map[string]struct {
		at     api.ConsoleAt
		bus    api.ClientOptions
		status int
		state  severity
		detail string
	}{
		"it answers":           {api.ConsoleAt{Address: at, CA: ca}, beside, http.StatusOK, sound, "answers at " + at},
		"none":                 {api.ConsoleAt{}, beside, 0, sound, "serves none"},
		"on another host":      {api.ConsoleAt{Address: at, CA: ca}, elsewhere, 0, sound, "on its own host alone, at " + at},
		"another certificate":  {api.ConsoleAt{Address: at}, beside, 0, broken, "the certificate at " + at + " is not accepted"},
		"nobody answers":       {api.ConsoleAt{Address: gone.Listener.Addr().String()}, beside, 0, warning, "does not answer at "},
		"no login":             {api.ConsoleAt{Address: at, CA: ca}, beside, http.StatusServiceUnavailable, broken, "shows no login at " + at + ": 503"},
		"not an address":       {api.ConsoleAt{Address: "a b"}, api.ClientOptions{}, 0, broken, `the master serves it at "a b"`},
		"no file of the CA":    {api.ConsoleAt{Address: at}, api.ClientOptions{URL: beside.URL, CA: "absent"}, 0, broken, "cannot read the certificates of the bus"},
		"it answers elsewhere": {api.ConsoleAt{Address: at, Host: "z.example.com", CA: ca}, beside, http.StatusOK, sound, "answers at " + at},
	} {
		t.Run(name, func(t *testing.T) {
			status = c.status
			d := &doctor{a: &app{connect: connection{dataDir: t.TempDir()}}, now: time.Now()}
			d.console(context.Background(), c.at, c.bus)
			if len(d.Findings) == 0 || d.Findings[0].State != c.state || !strings.Contains(d.Findings[0].Detail, c.detail) {
				t.Errorf("%+v", d.Findings)
			}
			if dated := len(d.Findings) == 2; dated != (c.status == http.StatusOK) {
				t.Errorf("the certificate: %+v", d.Findings)
			}
		})
	}
}
