package auth

import (
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxSitePeels is how many peels a credential of a site names. A server makes at most 4,096 permissions from a credential,
// and a peel has seven to publish.
const MaxSitePeels = 500

// maxSiteToken is how long a JWT of a site may be, in bytes: servers take 64 KiB from a leaf node before they know it.
const maxSiteToken = 60 << 10

// IssueSite signs a JWT as [Keys.Issue] does, for a leaf node that brings the peels to the bus.
func (k *Keys) IssueSite(name, public string, peels []target.PeelID, ttl time.Duration) (string, error) {
	if len(peels) == 0 || len(peels) > MaxSitePeels {
		return "", fmt.Errorf("cannot sign a credential for the site %q: it has %d peels, 1 to %d are possible", name, len(peels), MaxSitePeels)
	}
	var tags []string
	for _, p := range peels {
		if _, err := target.ParsePeelID(string(p)); err != nil {
			return "", fmt.Errorf("cannot sign a credential for the site %q: %w", name, err)
		}
		tags = append(tags, peelTag+p.Wire())
	}
	token, err := k.issue(RoleSite, name, public, ttl, tags...)
	if err == nil && len(token) > maxSiteToken {
		err = fmt.Errorf("cannot sign a credential for the site %q: it would have %d bytes, %d are possible: name fewer peels", name, len(token), maxSiteToken)
	}
	return token, err
}
