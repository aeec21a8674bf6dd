package bounds

import "testing"

// TestALimiterKeepsTheKeysThatCameLast holds that one key cannot drive out another that is in use, and that the number
// of keys is bounded.
func TestALimiterKeepsTheKeysThatCameLast(t *testing.T) {
	l := NewLimiter[int](0, 5)
	for l.of(-1).Allow() {
	}
	for i := range 10 * maxKeys {
		l.of(i)
		if i%1000 == 0 && l.of(-1).Allow() {
			t.Fatalf("forgotten after %d others", i)
		}
		if n := len(l.now) + len(l.before); n > 2*maxKeys {
			t.Fatalf("%d keys are kept", n)
		}
	}
	for i := range 2 * maxKeys {
		l.of(i)
	}
	if !l.of(-1).Allow() {
		t.Error("a key that never came again is remembered for ever")
	}
}

func TestACounterCountsInAllAndForEachKey(t *testing.T) {
	type address int
	c := NewCounter(4)
	slots := func(token string, from address) []Slot { return []Slot{{token, 2}, {from, 3}} }
	for i, step := range []struct {
		token string
		from  address
		want  bool
	}{{"a", 1, true}, {"a", 1, true}, {"a", 2, false}, {"b", 1, true}, {"c", 1, false}, {"c", 2, true}, {"d", 3, false}} {
		if got := c.Enter(slots(step.token, step.from)...); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	c.Leave(slots("a", 1)...)
	if !c.Enter(slots("d", 1)...) {
		t.Error("no place after one has left")
	}
	for token, from := range map[string]address{"a": 1, "b": 1, "c": 2, "d": 1} {
		c.Leave(slots(token, from)...)
	}
	if len(c.byKey) != 0 || c.total != 0 {
		t.Errorf("%v are left", c.byKey)
	}
}
