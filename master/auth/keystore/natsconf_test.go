package keystore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth/keystore"
)

func TestAServerIsPrintedWithTLSAlone(t *testing.T) {
	trust := open(t, filepath.Join(t.TempDir(), "auth")).Trust()
	for listen, c := range map[string]keystore.NATSConf{
		"0.0.0.0:4222":   {Cert: "c.pem", Key: "k.pem"},
		"127.0.0.1:4222": {},
		":4222":          {},
		"192.0.2.7:4222": {Cert: "c.pem"},
		"192.0.2.7":      {Cert: "c.pem", Key: "k.pem"},
	} {
		c.Trust, c.Listen, c.Dir = trust, listen, "/var/lib/nats"
		text, err := c.Text()
		good := listen == "0.0.0.0:4222"
		if (err == nil) != good || strings.Contains(text, `min_version: "1.3"`) != good {
			t.Errorf("%s: %v\n%s", listen, err, text)
		}
	}
}
