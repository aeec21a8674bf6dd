package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/dial"
)

func (a *app) consoleCommand() *cobra.Command {
	var onlyPrint bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Open the web console, signed in",
		Long: `console serves the web console of a master on loopback, signs a browser in with
your credential, and opens it. It ends with Ctrl-C; the session ends 30 minutes
after the last page, or with "Sign out".

With --print it prints a link to the master itself, for a browser that trusts
the master's certificate. The link signs in once, within a minute.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.console(cmd.Context(), onlyPrint) },
	}
	cmd.Flags().BoolVar(&onlyPrint, "print", false, "print a link for another browser, and end")
	return cmd
}

func (a *app) console(ctx context.Context, onlyPrint bool) error {
	o, err := a.bus()
	if err != nil {
		return err
	}
	var code *api.SessionCode
	err = a.withClient(func(client *api.Client) (err error) {
		code, err = api.SessionCreate.Ask(ctx, client, api.None{})
		return err
	})
	if err != nil {
		return err
	}
	if code.Address == "" {
		return &failure{
			code: exitFailed, err: errors.New("the master that replied serves no console"),
			hint: "its master.yaml says rest.listen: off, or console.serve: false",
		}
	}
	if onlyPrint {
		fmt.Fprintf(a.out, "https://%s/login#%s\n", cmp.Or(code.Host, code.Address), code.Code)
		return nil
	}
	if err := a.checkReachable(code.Address, o.URL); err != nil {
		return err
	}

	roots, err := consoleRoots(o, code.CA)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot serve the console: %w", err)
	}
	host := newConsoleHost(l.Addr())
	srv := &http.Server{Handler: newConsoleProxy(host, code.Address, roots), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	link := "http://" + host + "/login#" + code.Code
	if err := openBrowser(ctx, link); err != nil {
		fmt.Fprintf(a.out, "open %s\n", link)
	} else {
		fmt.Fprintf(a.out, "the console is at http://%s until Ctrl-C\n", host)
	}
	select {
	case err := <-ended:
		return fmt.Errorf("cannot serve the console: %w", err)
	case <-ctx.Done():
	}
	_ = srv.Close()
	<-ended
	return nil
}

// newConsoleHost returns the name and port of the console on this host. A random name below localhost is an origin of
// its own, so that programs on other ports of this host get none of its cookies.
func newConsoleHost(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String()) // of a TCP listener
	return "z-" + strings.ToLower(rand.Text()[:16]) + ".localhost:" + port
}

// hostOfURL returns the HOST:PORT of a URL.
func hostOfURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// checkReachable returns an error if this host cannot reach the console of a master of the bus.
func (a *app) checkReachable(console, bus string) error {
	if !isLoopback(console) || a.isBesideMaster(bus) {
		return nil
	}
	return &failure{
		code: exitFailed, err: fmt.Errorf("the master serves the console on its own host alone, at %s", console),
		hint: "run zester console there, or give it an address with rest.listen in master.yaml",
	}
}

// isBesideMaster reports whether a master of the bus at a URL runs on this host.
func (a *app) isBesideMaster(bus string) bool {
	info, err := api.ReadRunInfo(a.connect.dataDir)
	return err == nil && info.URL == bus || isLoopback(hostOfURL(bus))
}

// isLoopback reports whether only programs of this host reach a HOST:PORT.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// consoleRoots returns the certificate authorities by which the console is checked: ca, which the master sent over the
// bus. If ca is empty, they are the authorities of the system and of the bus.
func consoleRoots(o api.ClientOptions, ca string) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	if roots.AppendCertsFromPEM([]byte(ca)) {
		return roots, nil
	}
	if system, err := x509.SystemCertPool(); err == nil {
		roots = system
	}
	text := o.Creds
	if o.CA != "" {
		var err error
		if text, err = os.ReadFile(o.CA); err != nil {
			return nil, fmt.Errorf("cannot read the certificates of the bus: %w", err)
		}
	}
	roots.AppendCertsFromPEM(text)
	return roots, nil
}

// Names of the cookie of a session. Browsers take the prefix over TLS alone.
const (
	masterCookie = "__Host-zester"
	localCookie  = "zester"
)

// consoleTransport connects to a master, without a proxy.
func consoleTransport(roots *x509.CertPool) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	return transport
}

// newConsoleProxy passes requests for host on to a master. It renames the cookie, and refuses requests for other hosts.
func newConsoleProxy(host, master string, roots *x509.CertPool) http.Handler {
	transport := consoleTransport(roots)
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: master})
			r.Out.Host = master
			if r.In.Header.Get("Origin") == "http://"+host {
				r.Out.Header.Set("Origin", "https://"+master)
			}
			r.Out.Header.Del("Cookie")
			for _, c := range r.In.Cookies() {
				if c.Name == localCookie {
					c.Name = masterCookie
				}
				r.Out.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			cookies := resp.Cookies()
			resp.Header.Del("Set-Cookie")
			for _, c := range cookies {
				if c.Name == masterCookie {
					c.Name = localCookie
				}
				c.Secure = false
				resp.Header.Add("Set-Cookie", c.String())
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the master does not answer: "+dial.Explain(err, "").Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != host {
			http.Error(w, "this is the console of another address", http.StatusMisdirectedRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// hasBrowser reports whether this user has a desktop.
func hasBrowser() bool {
	return runtime.GOOS == "darwin" || runtime.GOOS == "windows" || os.Getenv("DISPLAY") != "" ||
		os.Getenv("WAYLAND_DISPLAY") != ""
}

// openBrowser opens a link in the browser of this desktop.
func openBrowser(ctx context.Context, link string) error {
	if !hasBrowser() {
		return errors.New("no desktop")
	}
	opener := map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS]
	return exec.CommandContext(ctx, cmp.Or(opener, "xdg-open"), link).Start()
}
