// Package console serves the pages of a master to browsers. Call [New]; the result is an [http.Handler] for all paths
// that REST leaves.
//
// # How a page is added
//
//  1. Package view: a file NAME.go with the struct of the page and the function that makes it of a query and an
//     [api.Asker]. The struct is also the answer to ?format=json.
//  2. Package page: a file NAME.templ with the component of the struct, whose parts are in page.Region. A test compares
//     it with testdata/NAME.html; go test -update writes that.
//  3. Here: an entry in a list of routes such as [fleetPages], in a file of its own for each group of pages. The guard
//     asks for the noun and the verb of the entry before the page is made, and for each request that the page sends.
//
// # Guarantees
//
// A request is checked in a fixed order: its origin, the session of its cookie, the rate of the session, then the
// request that the page or form sends, by [session.May]. Cookies open pages, bearer tokens open /api/v1, and neither
// opens the other's. GET changes nothing. Every answer has the headers of [secure]. Every order runs in the name of the
// session's user, and the service that carries it out writes the audit log.
//
// # While one looks on
//
// One tab of a browser follows /events, which names the parts that changed; a watch knows them. Each visible tab then
// asks for those of its page by ?part=. So a new part needs its sources in live.go, which a test holds.
package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
	"github.com/seed-c01c3da5/zester/master/session"
)

const (
	pageTime          = 10 * time.Second
	orderTime         = 50 * time.Second // of a form that is sent; package rest ends answers after 60 s
	requestsPerSecond = 20               // of a session
	requestsAtOnce    = 60
	guessEvery        = 6 * time.Second // wrong logins of an address
	guessesAtOnce     = 10
	loginsPerSecond   = 2 // of an address, for which a master asks the provider
	loginsAtOnce      = 60
	maxForm           = 256 << 10 // bytes
)

// Options are what the console is made of. Conn, Sessions and For are required.
type Options struct {
	Conn     *nats.Conn // the bus of the master
	Sessions *session.Store
	For      func(grants.Caller) api.Asker // sends requests in the name of a caller
	// Check is an error if the rules about a caller do not allow a verb; nil: roles alone decide what pages offer.
	Check   func(context.Context, grants.Caller, access.Verb) error
	Login   *login.Provider // where people log in; nil: nowhere
	Audit   *audit.Log      // nil: nothing is kept
	Fleet   string          // the name of the fleet
	Zone    *time.Location  // of all times; nil: UTC
	Proxies []netip.Prefix  // whose X-Forwarded-For is believed
	Log     *slog.Logger    // nil: nothing is logged
}

// A Console serves pages. Make it with [New], and call Run beside. It may serve several requests at a time.
type Console struct {
	o       Options
	mux     *http.ServeMux
	origin  *http.CrossOriginProtection
	guesses *bounds.Limiter[netip.Prefix]
	logins  *bounds.Limiter[netip.Prefix]
	asked   *bounds.Limiter[string] // by the session's ID
	streams *bounds.Counter
	kept    kept
	counts  counts
	metrics metrics
	live    *watch
	access  accessSeen
}

// watcher is in whose name a console asks what changed.
var watcher = grants.Caller{User: "console", Role: grants.RoleAuditor, Via: grants.ViaConsole}

// New returns a console. It starts nothing.
func New(o Options) *Console {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	c := &Console{
		o: o, mux: http.NewServeMux(), origin: http.NewCrossOriginProtection(),
		guesses: bounds.NewLimiter[netip.Prefix](rate.Every(guessEvery), guessesAtOnce),
		logins:  bounds.NewLimiter[netip.Prefix](loginsPerSecond, loginsAtOnce),
		asked:   bounds.NewLimiter[string](requestsPerSecond, requestsAtOnce),
		streams: bounds.NewCounter(maxStreams),
		metrics: newMetrics(),
		live:    newWatch(watchOptions{Conn: o.Conn, Ask: o.For(watcher)}),
	}
	c.mux.HandleFunc("GET /events", c.events)
	c.mux.HandleFunc("GET /assets/{hash}/{name}", serveAsset)
	c.mux.HandleFunc("GET /login", c.showLogin)
	c.mux.HandleFunc("POST /login", c.login)
	if o.Login != nil {
		c.mux.HandleFunc("GET /login/oidc", c.slowly(c.beginLogin))
		c.mux.HandleFunc("GET "+login.CallbackPath, c.slowly(c.endLogin))
	}
	c.mux.HandleFunc("POST /logout", c.within(c.logout))
	for _, r := range slices.Concat(fleetPages, jobPages, repeatPages, systemPages, dataPages) {
		c.mux.HandleFunc("GET "+r.path, c.within(func(v *visit) { c.show(v, r) }))
	}
	for _, o := range allOrders() {
		c.handleOrder(o)
	}
	c.mux.HandleFunc("GET /search", c.within(search))
	c.mux.HandleFunc("POST /jobs/new", c.within(c.dispatchJob))
	c.mux.HandleFunc("POST /me", c.within(c.saveMe))
	c.mux.HandleFunc("POST /logout-all", c.within(c.logoutAll))
	c.mux.HandleFunc("GET /", c.within(c.missing))
	return c
}

// A route is a page.
type route struct {
	path       string // a pattern of [http.ServeMux]
	name       string // of the page, see [page.Frame]
	nav        string // the word of the navigation
	noun, verb string // of the request that a session has to be allowed; "": every session is
	shared     bool   // its parts are the same for all sessions that may do the same
	form       bool   // it is a form, in which nothing changes while one looks on
	show       func(*visit) (*shown, error)
}

// shown is the content of a page.
type shown struct {
	title  string
	crumbs []page.Link
	body   templ.Component
	data   any // the answer to ?format=json
	status int // 0: 200
}

// A visit is a request of a browser with a session.
type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	session *api.Session
	ask     api.Asker  // in the name of the session, within [session.May]
	request string     // ID of the request
	made    *page.Form // what an order has made and the answer shows once; nil: nothing
	now     *api.Now   // what the page shows; nil: another page
	nav     uint64     // version of the counts beside the navigation, which was read before they are

	check   func(access.Verb) error // by the rules about the user; nil: the role decides
	allowed map[access.Verb]bool    // what check has said
}

// may reports whether the session may send a request, by its role and by the rules about its user. Pages leave out what
// it may not. Where rules cannot be read it is what the role may do: the service that gets the request decides.
func (v *visit) may(noun, verb string) bool {
	if !session.May(v.session, noun, verb) {
		return false
	}
	if v.check == nil {
		return true
	}
	known, asked := v.allowed[access.Verb(noun+"."+verb)]
	if !asked {
		known = !errors.Is(v.check(access.Verb(noun+"."+verb)), grants.ErrNotAllowed)
		v.allowed[access.Verb(noun+"."+verb)] = known
	}
	return known
}

// query returns a parameter of the query, at most 256 bytes of it.
func (v *visit) query(name string) string { return audit.Bounded(v.r.URL.Query().Get(name), 256) }

// parts returns the names of the parts that a page asks for, each once.
func (v *visit) parts() []string {
	names := v.query("part")
	if names == "" {
		return nil
	}
	return slices.Compact(slices.Sorted(strings.SplitSeq(names, ",")))
}

// guarded sends the requests of a session that it may send.
type guarded struct {
	api.Asker
	session *api.Session
}

// Ask refuses what the session may not do: the bus does not, as the master sends the request.
func (g guarded) Ask(ctx context.Context, noun, verb string, question, answer any) error {
	if !session.May(g.session, noun, verb) {
		return forbidden(g.session, noun, verb)
	}
	return g.Asker.Ask(ctx, noun, verb, question, answer)
}

func forbidden(s *api.Session, noun, verb string) error {
	msg := s.User + " may not do " + noun + "." + verb + ": the role is " + roleName(s)
	return &api.Error{Code: api.CodeForbidden, Msg: msg}
}

// roleName returns what people call the role of a session.
func roleName(s *api.Session) string {
	if s.Scopes == nil {
		return string(s.Role)
	}
	var scopes []string
	for _, scope := range s.Scopes {
		scopes = append(scopes, string(scope))
	}
	return "token with " + strings.Join(scopes, ", ")
}

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if c.o.Login != nil && r.URL.Path == logoutPath && r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		c.providerLogout(w, r)
		return
	}
	if r.URL.Path == api.LoginPath && r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		c.slowly(c.loginOnHost)(w, r)
		return
	}
	if err := c.origin.Check(r); err != nil {
		c.plain(w, r, http.StatusForbidden, "this request came from another site: "+err.Error())
		return
	}
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead
	if changes && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		c.plain(w, r, http.StatusForbidden, "this request names no origin: use a browser, or /api/v1 with a token")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	c.mux.ServeHTTP(w, r)
}

// show writes a page, the parts of it that ?part= names, or its data as JSON.
func (c *Console) show(v *visit, r route) {
	if r.noun != "" && !v.may(r.noun, r.verb) {
		c.fail(v, r, forbidden(v.session, r.noun, r.verb))
		return
	}
	if r.form && refreshes(v.r) {
		c.send(v, nil, 0)
		return
	}
	if place := c.keep(v, r); place != nil {
		c.showKept(v, r, place)
		return
	}
	began := time.Now()
	s, err := r.show(v)
	switch {
	case err != nil:
		c.fail(v, r, err)
	case v.r.URL.Query().Get("format") == "json":
		writeJSON(v.w, http.StatusOK, s.data)
	default:
		c.write(v, r, s)
		c.metrics.rendered(r.name, time.Since(began))
	}
}

func writeJSON(w http.ResponseWriter, status int, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// frame returns what stands around a page.
func (c *Console) frame(v *visit, r route, s *shown) page.Frame {
	f := page.Frame{
		Name: r.name, Nav: r.nav, Title: s.title, Crumbs: s.crumbs, Fleet: c.o.Fleet, User: v.session.User,
		Role: roleName(v.session), Theme: theme(v.r), Keys: keysOn(v.r), Counts: c.countsOf(v),
	}
	if v.session.BreakGlass {
		f.Banner = "You use the credential of a master's data directory, which is for emergencies. " +
			"What you do is recorded under the name " + v.session.User + "."
	}
	return f
}

func (c *Console) env() page.Env {
	return page.Env{
		Now: time.Now(), Zone: c.o.Zone, CSS: assetPath("console.css"), JS: assetPath("console.js"),
		Icons: assetPath("icons.svg"), Mark: assetPath("favicon.svg"),
	}
}

// write renders a page and sends it.
func (c *Console) write(v *visit, r route, s *shown) {
	if text := c.render(v, r, s); text != nil {
		c.send(v, text, s.status)
	}
}

// render returns a page or parts of one. If it cannot be made it answers the visit and returns nil. It is made also
// after the time of the request: the order may have been carried out.
func (c *Console) render(v *visit, r route, s *shown) []byte {
	var out bytes.Buffer
	layout := page.Layout(c.frame(v, r, s))
	env := c.env()
	env.May = v.may
	ctx := templ.WithChildren(page.With(context.WithoutCancel(v.r.Context()), env), s.body)
	if err := layout.Render(ctx, &out); err != nil {
		c.o.Log.Error("page not rendered", "page", r.name, "request", v.request, "err", err)
		http.Error(v.w, "the page could not be made; request "+v.request, http.StatusInternalServerError)
		return nil
	}
	if parts := v.parts(); len(parts) > 0 {
		return append([]byte{}, cut(out.Bytes(), parts)...)
	}
	return out.Bytes()
}

// send sends a page or parts of one, unless the browser has them. Status 0 is 200.
func (c *Console) send(v *visit, text []byte, status int) {
	sum := sha256.Sum256(text)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	h := v.w.Header()
	h.Set("Etag", tag)
	h.Set("Content-Type", "text/html; charset=utf-8")
	if status == 0 && v.r.Header.Get("If-None-Match") == tag {
		v.w.WriteHeader(http.StatusNotModified)
		return
	}
	if status != 0 {
		v.w.WriteHeader(status)
	}
	_, _ = v.w.Write(text)
}

// cut returns the parts of a page with these names. Comments of [page.Region] mark them; texts cannot, as < is escaped.
func cut(text []byte, names []string) []byte {
	var parts []byte
	for _, name := range names {
		_, rest, found := bytes.Cut(text, []byte("<!--part "+name+"-->"))
		part, _, ended := bytes.Cut(rest, []byte("<!--/part "+name+"-->"))
		if found && ended {
			parts = append(parts, part...)
		}
	}
	return parts
}

// statusOf returns the status of an answer for an error of a service.
func statusOf(err error) int {
	switch api.CodeOf(err) {
	case api.CodeInvalid:
		return http.StatusBadRequest
	case api.CodeForbidden:
		return http.StatusForbidden
	case api.CodeNotFound:
		return http.StatusNotFound
	case api.CodeConflict:
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

var headlines = map[int]string{
	http.StatusBadRequest: "This address has a value that cannot be read",
	http.StatusForbidden:  "You may not do this",
	http.StatusNotFound:   "There is no such thing",
	http.StatusConflict:   "It is not as it was shown",
}

// fail writes a page about an error.
func (c *Console) fail(v *visit, r route, err error) {
	status := statusOf(err)
	if errors.Is(err, context.Canceled) {
		return // nobody waits for the answer
	}
	c.failWith(v, r, status, err.Error())
}

func (c *Console) failWith(v *visit, r route, status int, detail string) {
	if status >= http.StatusInternalServerError {
		c.o.Log.Warn("page not made", "page", r.name, "request", v.request, "err", detail)
	}
	if !wantsHTML(v.r) {
		writeProblem(v.w, status, detail)
		return
	}
	headline, ok := headlines[status]
	if !ok {
		headline = "This page cannot be made now"
	}
	f := c.frame(v, r, &shown{title: headline})
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	ctx := page.With(context.WithoutCancel(v.r.Context()), c.env()) // the time of the request may be what ended
	_ = page.Problem(f, headline, detail, v.request).Render(ctx, v.w)
}

// missing answers a path without a page.
func (c *Console) missing(v *visit) {
	if v.r.URL.Path == "/" {
		http.Redirect(v.w, v.r, "/peels", http.StatusSeeOther)
		return
	}
	c.failWith(v, route{name: "missing"}, http.StatusNotFound, "No page has the address "+v.r.URL.Path+".")
}

// wantsHTML reports whether the answer is for a browser's window.
func wantsHTML(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") && r.URL.Query().Get("format") != "json"
}

// writeProblem writes a problem of RFC 9457.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	text, _ := json.Marshal(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
	_, _ = w.Write(append(text, '\n'))
}
