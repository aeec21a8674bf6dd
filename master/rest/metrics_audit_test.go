package rest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/audit"
)

// A credential of a master can add a line to the audit log that is in no chain, and metrics show it.
func TestMetricsShowTheAuditLogAndItsGaps(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.stop()
		log := audit.OpenLog(s.js, quiet)
		s.backend.Audit = log
		s.serve()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- log.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		reader := s.reader()
		expect := func(metrics ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			text := string(s.ask(reader, "GET", "/metrics", nil).body)
			for _, m := range metrics {
				if !strings.Contains(text, "\n"+m+"\n") {
					t.Errorf("no %s in\n%s", m, text)
				}
			}
		}
		for range 2 {
			log.Write(t.Context(), audit.Entry{Action: "user.add", User: "ann", Result: audit.Done})
		}
		expect("zester_audit_sequence 2", "zester_audit_gaps_total 0")
		if _, err := s.js.Publish(t.Context(), "zester.audit.user.add.ann", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		expect("zester_audit_sequence 3", "zester_audit_gaps_total 1")
	})
}
