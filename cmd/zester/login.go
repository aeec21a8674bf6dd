package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/dial"
)

const (
	loginWait  = 10 * time.Minute // for a person to log in, as masters allow it
	loginReply = time.Minute      // of a master
	maxReply   = 1 << 20          // bytes
	slowDown   = 5 * time.Second  // RFC 8628, section 3.5
	busPort    = "4222"
)

const hintLogin = "zester login logs you in again"

func (a *app) loginCommand() *cobra.Command {
	var device bool
	cmd := &cobra.Command{
		Use:   "login [URL]",
		Short: "Log in at the provider of the console, for this command line",
		Long: `login opens the provider of OpenID Connect at which the console logs people in,
and writes a credential of 8 hours to a file of mode 0600. URL is that of the
console; it may be left out where the context has it. The private key is made
here and stays here. Commands renew the credential by themselves for a day; then
you log in again. What you may do follows from your groups, as in the console.

Without a desktop, or with --device, it shows a code that you enter in a browser
on any other device.

It stores the bus and the credential as a context and makes it the default. The
context is called like the host of the URL unless --context names it. The bus is
at port 4222 of that host unless --url says otherwise. --ca names the
authorities of the console if the system does not have them.`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.newLogin(args)
			if err != nil {
				return err
			}
			return l.run(cmd.Context(), device)
		},
	}
	cmd.Flags().BoolVar(&device, "device", false, "show a code to enter in a browser elsewhere")
	return cmd
}

// A hostLogin is a login of a person on this host.
type hostLogin struct {
	a       *app
	config  clientConfig
	name    string // of the context
	context busContext
	client  *http.Client
	step    api.LoginStep // what every request has
}

// newLogin reads where the person logs in.
func (a *app) newLogin(args []string) (*hostLogin, error) {
	l := &hostLogin{a: a}
	var err error
	if l.config, err = readConfig(); err != nil {
		return nil, err
	}
	l.name = cmp.Or(a.connect.name, l.config.Current)
	if len(args) > 0 {
		l.name = a.connect.name
	}
	l.context = l.config.Contexts[l.name]
	at := l.context.Login
	if len(args) > 0 {
		at = args[0]
	}
	u, err := url.Parse(at)
	switch {
	case at == "":
		return nil, usageError("cannot log in without the URL of the console, such as https://zester.example.com")
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil:
		return nil, usageError("cannot log in at %q: want https and a host, such as https://zester.example.com", at)
	}
	if l.name == "" || l.name == localContext {
		l.name = u.Hostname()
		l.context = l.config.Contexts[l.name]
	}
	if !validContext.MatchString(l.name) {
		return nil, usageError("cannot name a context %q: --context gives it another name", l.name)
	}
	if l.context.URL != "" && l.context.Login == "" {
		return nil, &failure{
			code: exitFailed, err: fmt.Errorf("the context %s has a credential that login would replace", l.name),
			hint: "--context gives the new one another name",
		}
	}

	file, err := configFile()
	if err != nil {
		return nil, err
	}
	l.context.Login = "https://" + u.Host
	l.context.Creds = filepath.Join(filepath.Dir(file), "logins", l.name+".creds")
	l.context.URL = cmp.Or(a.connect.url, l.context.URL, "tls://"+net.JoinHostPort(u.Hostname(), busPort))
	if a.connect.ca != "" {
		if l.context.CA, err = filepath.Abs(a.connect.ca); err != nil {
			return nil, err
		}
	}
	known, err := os.ReadFile(l.context.Creds)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	roots, err := consoleRoots(api.ClientOptions{CA: l.context.CA, Creds: known}, "")
	if err != nil {
		return nil, err
	}
	l.client = &http.Client{
		Transport: consoleTransport(roots), Timeout: loginReply,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the console sends the login elsewhere")
		},
	}
	return l, nil
}

// run logs the person in, and stores the credential and the context.
func (l *hostLogin) run(ctx context.Context, device bool) error {
	ctx, cancel := context.WithTimeout(ctx, loginWait)
	defer cancel()
	key, err := credential.MakeKey()
	if err != nil {
		return err
	}
	l.step.Public = key.Public()
	if l.step.Proof, err = key.Sign(credential.LoginText(l.step.Public)); err != nil {
		return err
	}
	next := &api.LoginNext{}
	if device || !hasBrowser() {
		next, err = l.byCode(ctx)
	} else {
		next, err = l.byBrowser(ctx)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) { // a request has a shorter limit of its own
		err = fmt.Errorf("nobody has logged in for %v", loginWait)
	}
	if err != nil {
		return err
	}

	creds, err := key.Creds(next.JWT)
	if err != nil {
		return err
	}
	if err := l.store(append(creds, certificates(next.CA)...)); err != nil {
		return err
	}
	fmt.Fprintf(l.a.errOut, "%s is logged in; the context %s is the default\n", next.User, l.name)
	return nil
}

// store writes the credential, then the context that names it.
func (l *hostLogin) store(creds []byte) error {
	if err := os.MkdirAll(filepath.Dir(l.context.Creds), 0o700); err != nil {
		return fmt.Errorf("cannot write the credential: %w", err)
	}
	if err := renameio.WriteFile(l.context.Creds, creds, 0o600); err != nil {
		return fmt.Errorf("cannot write the credential: %w", err)
	}
	if l.config.Contexts == nil {
		l.config.Contexts = map[string]busContext{}
	}
	l.config.Contexts[l.name], l.config.Current = l.context, l.name
	return writeConfig(l.config)
}

// ask sends a step to the console.
func (l *hostLogin) ask(ctx context.Context, step api.LoginStep) (*api.LoginNext, error) {
	step.Public, step.Proof = l.step.Public, l.step.Proof
	body, err := json.Marshal(step)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.context.Login+api.LoginPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := l.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("cannot log in at %s: %w", l.context.Login, dial.Explain(err, ""))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("cannot log in at %s: %w", l.context.Login, err)
	}
	if answer.StatusCode != http.StatusOK {
		var problem struct {
			Detail string `json:"detail"`
		}
		if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
			problem.Detail = "the answer is " + answer.Status
		}
		return nil, &failure{
			code: exitDenied, err: fmt.Errorf("cannot log in at %s: %s", l.context.Login, plain(problem.Detail)),
		}
	}
	next := &api.LoginNext{}
	if err := json.Unmarshal(text, next); err != nil {
		return nil, fmt.Errorf("cannot log in at %s: %w", l.context.Login, err)
	}
	return next, nil
}

// byBrowser opens the provider in a browser of this host, which comes back to a port of this process.
func (l *hostLogin) byBrowser(ctx context.Context) (*api.LoginNext, error) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot wait for the browser: %w", err)
	}
	port := at.Addr().(*net.TCPAddr).Port
	begun, err := l.ask(ctx, api.LoginStep{Port: uint16(port)})
	if err != nil {
		return nil, errors.Join(err, at.Close())
	}
	back := make(chan api.LoginStep, 1)
	srv := &http.Server{Handler: comeBack(begun, back), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(at) }()
	defer func() {
		_ = srv.Close()
		<-ended
	}()
	if err := openBrowser(ctx, begun.URL); err != nil {
		fmt.Fprintf(l.a.errOut, "open %s\n", plain(begun.URL))
	} else {
		fmt.Fprintln(l.a.errOut, "waiting for the login in your browser")
	}

	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case step := <-back:
		stop, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = srv.Shutdown(stop) // the page has left
		return l.ask(ctx, step)
	}
}

// comeBack takes the answer of the provider, once. It leaves requests with another state alone: any page may send them.
func comeBack(begun *api.LoginNext, back chan<- api.LoginStep) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login/callback", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(begun.State)) != 1 {
			http.Error(w, "this is not the answer to the login that waits here", http.StatusBadRequest)
			return
		}
		step := api.LoginStep{
			Attempt: begun.Attempt, Code: q.Get("code"), State: q.Get("state"), Refusal: q.Get("error"),
		}
		select {
		case back <- step:
			fmt.Fprintln(w, "Go back to the terminal, which says whether you are logged in.")
		default:
			http.Error(w, "the login has its answer", http.StatusConflict)
		}
	})
	return mux
}

// byCode shows a code, and waits until the person has entered it elsewhere.
func (l *hostLogin) byCode(ctx context.Context) (*api.LoginNext, error) {
	begun, err := l.ask(ctx, api.LoginStep{})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(l.a.errOut, "open %s in any browser, and enter or compare the code %s\n", plain(begun.URL),
		plain(begun.UserCode))
	return awaitCode(ctx, begun, func() (*api.LoginNext, error) {
		return l.ask(ctx, api.LoginStep{Device: begun.Device})
	})
}

// awaitCode asks until the person has decided, not more often than the provider wants.
func awaitCode(
	ctx context.Context, begun *api.LoginNext, ask func() (*api.LoginNext, error),
) (*api.LoginNext, error) {
	wait := max(begun.Wait, time.Second)
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		if time.Now().After(begun.Ends) {
			return nil, fmt.Errorf("nobody has entered the code until %s", when(begun.Ends))
		}
		next, err := ask()
		if err != nil || !next.Pending {
			return next, err
		}
		if next.SlowDown {
			wait += slowDown
		}
	}
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "End your login on this host, and its credential on the bus",
		Long: `logout ends the credential that zester login has written, on the bus and in its
file. The context stays, so that zester login needs no URL. It does not log you
out at the provider, and does not end logins of the console or of other hosts.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.logout(cmd.Context()) },
	}
}

func (a *app) logout(ctx context.Context) error {
	if err := a.connect.applyContext(); err != nil {
		return err
	}
	file := a.connect.creds
	if a.connect.login == "" {
		return usageError("there is no login to end: this connection is not one of zester login")
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &failure{code: exitFailed, err: errors.New("nobody is logged in here")}
	}
	if err != nil {
		return err
	}
	own, err := credential.ReadOwn(text)
	if err != nil {
		return err
	}

	client, err := a.client()
	if err == nil {
		defer client.Close()
		_, err = api.UserLogout.Ask(ctx, client, credential.LogoutRequest{Public: own.Public()})
	}
	if err != nil && api.CodeOf(err) != api.CodeDenied { // denied: it has ended
		return fmt.Errorf("the login of %s has not ended on the bus, where it expires at %s: %w", own.Name,
			when(own.Expires), err)
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	_ = os.Remove(file + triedSuffix) // most logins have none
	fmt.Fprintf(a.errOut, "%s is logged out\n", own.Name)
	return nil
}
