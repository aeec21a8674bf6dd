package auth

import "testing"

func (q *EnrollRequest) Check() error { return q.check() }

func CloseIssue(dir string, u *User) error { return closeIssue(dir, u) }

// LetSitesBeClients has credentials of sites accepted from clients, until the test ends, on servers that start after it.
func LetSitesBeClients(t *testing.T) {
	was := siteConnections
	siteConnections = nil
	t.Cleanup(func() { siteConnections = was })
}
