package api

import (
	"testing"

	"github.com/seed-c01c3da5/zester/peel/dial"
)

// A request that was under way when a server froze is answered only if it is repeated over the connection to another one.
func TestARequestIsRepeatedAfterASilentServerIsLeft(t *testing.T) {
	left := 3 * dial.ServicePing
	if last := repeatAfter + (maxRepeats-1)*repeatEvery; last <= left || last >= answerWait {
		t.Errorf("the last repeat is after %v, a silent server is left after %v, and an answer is waited for %v", last, left, answerWait)
	}
}
