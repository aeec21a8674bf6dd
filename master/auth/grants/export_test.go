package grants

import "testing"

// LetSitesBeClients has credentials of sites accepted from clients, until the test ends, on servers that start after it.
func LetSitesBeClients(t *testing.T) {
	was := siteConnections
	siteConnections = nil
	t.Cleanup(func() { siteConnections = was })
}
