package remote

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

const dnsPort = 53 // long answers come over TCP

// schemePorts are the ports of URLs without one, of servers and of proxies.
var schemePorts = map[string]uint16{"http": 80, "https": 443, "ssh": 22, "socks5": 1080, "socks5h": 1080}

// Ports returns the TCP ports that a request may connect to: those of the server, of proxies and of DNS. A redirect of
// http may lead to the ports of http and https as well, and to no other.
func (a *Address) Ports(x outbound.Options) ([]uint16, error) {
	ports := []uint16{dnsPort}
	switch a.Scheme {
	case "ssh":
		ep, err := transport.NewEndpoint(a.raw)
		if err != nil {
			return nil, fmt.Errorf("cannot use repository URL %s: it is not a URL", a.Shown)
		}
		_, port, _ := net.SplitHostPort(hostPort(ep))
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			ports = append(ports, uint16(n))
		}
	default:
		ports = append(ports, schemePorts["http"], schemePorts["https"], portOf(a.raw))
	}
	proxies := []string{x.Proxy}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		proxies = append(proxies, os.Getenv(name))
	}
	for _, proxy := range proxies {
		ports = append(ports, portOf(proxy))
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	return slices.DeleteFunc(ports, func(port uint16) bool { return port == 0 }), nil
}

// portOf returns the port of a URL, 0 if it has none. As net/http does, it takes a proxy without a scheme for http.
func portOf(raw string) uint16 {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		u, err = url.Parse("http://" + raw)
	}
	if raw == "" || err != nil {
		return 0
	}
	n, err := strconv.ParseUint(cmp.Or(u.Port(), strconv.Itoa(int(schemePorts[u.Scheme]))), 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}
