package remote

import (
	"slices"
	"testing"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

func TestPortsAreThoseOfTheServerItsProxiesAndDNS(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "")
	}
	for _, c := range []struct {
		url, proxy, env string
		want            []uint16
	}{
		{"https://git.example/fleet", "", "", []uint16{53, 80, 443}},
		{"http://git.example:3000/fleet", "", "", []uint16{53, 80, 443, 3000}},
		{"https://[2001:db8::1]:8443/fleet", "http://proxy.example:3128", "", []uint16{53, 80, 443, 3128, 8443}},
		{"https://git.example/fleet", "", "proxy.example:8080", []uint16{53, 80, 443, 8080}},
		{"ssh://git@git.example:2222/fleet", "socks5://proxy.example", "", []uint16{53, 1080, 2222}},
		{"git@git.example:fleet", "", "", []uint16{22, 53}},
	} {
		t.Setenv("HTTPS_PROXY", c.env)
		a, err := Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		ports, err := a.Ports(outbound.Options{Proxy: c.proxy})
		if err != nil || !slices.Equal(ports, c.want) {
			t.Errorf("%s over %q and %q: ports %v, want %v; %v", c.url, c.proxy, c.env, ports, c.want, err)
		}
	}
}
