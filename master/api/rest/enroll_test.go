package rest_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// enrollment is the request of a new host.
func enrollment(t *testing.T, id target.PeelID) string {
	t.Helper()
	key, err := auth.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Sign(auth.EnrollProof(id, key.Public()))
	if err != nil {
		t.Fatal(err)
	}
	q, err := json.Marshal(auth.EnrollRequest{ID: id, Public: key.Public(), Proof: base64.RawURLEncoding.EncodeToString(proof)})
	if err != nil {
		t.Fatal(err)
	}
	return string(q)
}

// Who is turned away because too many ask must not be able to push the past out of the audit log.
func TestAFloodOfStrangersIsLeftOutOfTheAuditLog(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.stop()
		authority, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: s.bus.Keys, JetStream: s.js, Update: s.bus.Update})
		if err != nil {
			t.Fatal(err)
		}
		log := audit.Open(s.js, quiet)
		s.backend.Authority, s.backend.Audit = authority, log
		s.serve()
		answers := map[int]int{}
		for i := range 180 {
			resp, err := s.client.Post("http://master/api/v1/enroll", "application/json", strings.NewReader(enrollment(t, target.PeelID(fmt.Sprintf("h%d", i)))))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			answers[resp.StatusCode]++
		}
		if answers[http.StatusAccepted] != 100 || answers[http.StatusServiceUnavailable] != 80 {
			t.Fatalf("answers: %v", answers)
		}
		page, err := log.List(t.Context(), audit.Query{Limit: 500, Action: "enroll.ask"})
		if err != nil {
			t.Fatal(err)
		}
		waiting, away := 0, 0
		for _, e := range page.Entries {
			switch e.Result {
			case audit.Done:
				waiting++
			case audit.Refused:
				away++
			default:
				t.Errorf("%+v", e)
			}
		}
		if waiting != 100 || away != 20 {
			t.Errorf("%d who wait and %d who were turned away are in the log", waiting, away)
		}
	})
}
