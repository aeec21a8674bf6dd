package rest

import "testing"

// TestALimiterKeepsTheKeysThatCameLast holds that one key cannot drive out another that is in use, and that the number
// of keys is bounded.
func TestALimiterKeepsTheKeysThatCameLast(t *testing.T) {
	l := newLimiter[int](0, 5)
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

func TestACounterCountsInAllAndEach(t *testing.T) {
	c := newCounter(3, 2)
	for i, step := range []struct {
		key  string
		want bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}, {"c", false}} {
		if got := c.enter(step.key); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	c.leave("a")
	if !c.enter("c") {
		t.Error("no place after one has left")
	}
	for _, key := range []string{"a", "b", "c"} {
		c.leave(key)
	}
	if len(c.byKey) != 0 || c.all != 0 {
		t.Errorf("%v are left", c.byKey)
	}
}
