package dispatch_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/bus"
)

func TestAMasterWhoseNameAnotherRunHasTakenEnds(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m := s.master("m1")
		beats, err := s.js.KeyValue(t.Context(), "masters")
		if err == nil {
			err = beats.Delete(t.Context(), "m1") // as the bus does if the master cannot renew it
		}
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.enter("m1", "other", "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if m.stop(); !errors.Is(m.ended, bus.ErrNameTaken) {
			t.Errorf("the run that lost the name ended with %v", m.ended)
		}
		if other.stop(); other.ended != nil {
			t.Errorf("the run that has the name ended with %v", other.ended)
		}
	})
}
