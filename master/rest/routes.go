package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/settings/status"
)

const base = "/api/v1"

// routes are the handlers of one backend.
type routes struct {
	Backend
	s       *Server
	guard   *guard
	streams *bounds.Counter
}

func (s *Server) open(b Backend) http.Handler {
	mux := http.NewServeMux()
	s.enter(b, mux)
	return described(mux, s.pages(b.Console))
}

// enter registers all routes.
func (s *Server) enter(b Backend, mux humago.Mux) {
	r := &routes{Backend: b, s: s, guard: newGuard(b, s.log), streams: bounds.NewCounter(maxStreams)}
	doc := r.register(mux)
	mux.HandleFunc("GET "+base+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(doc)
	})
	if s.o.Hooks != nil {
		mux.HandleFunc("/hooks/{name}", s.o.Hooks.ServeHTTP)
	}
	mux.HandleFunc("POST "+base+"/enroll", r.enroll())
	if s.o.MCP != nil {
		mux.HandleFunc("/mcp", r.assistants().ServeHTTP)
	}
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", newReadiness(b).ServeHTTP)
	counters := MetricsHandler(MetricsSources{
		JetStream:  b.JetStream,
		Dispatcher: b.Dispatcher,
		Results:    b.Results,
		Scanner:    b.Scanner,
		Fleet:      b.Fleet,
		Trimmer:    b.Trimmer,
		Audit:      b.Audit,
	}, b.Collectors...)
	mux.HandleFunc("GET /metrics", r.guard.protect(scrapeScopes, scrapeVerb, counters).ServeHTTP)
}

// pages returns the handler of the console, for requests that name this listener: a name that another site has chosen
// would be of the same origin as that site. It returns nil if there is no console.
func (s *Server) pages(console http.Handler) http.Handler {
	if console == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && (s.o.Host == "" || r.Host != s.o.Host) && !isListener(s.o.TLS, r.Host) {
			problem(w, http.StatusMisdirectedRequest,
				fmt.Sprintf("this listener is not %.100q: use a name or an address of its certificate", r.Host))
			return
		}
		console.ServeHTTP(w, r)
	})
}

// described answers requests without a route by pages, and those to the API with a problem. pages may be nil.
func described(mux *http.ServeMux, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		if pages != nil && !strings.HasPrefix(r.URL.Path, "/api/") && !strings.HasPrefix(r.URL.Path, "/hooks/") {
			pages.ServeHTTP(w, r)
			return
		}
		found := refusal{header: http.Header{}}
		h.ServeHTTP(&found, r)
		if allow := found.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
		}
		if found.status == http.StatusMethodNotAllowed {
			problem(w, found.status, "method not allowed; allowed: "+found.header.Get("Allow"))
			return
		}
		problem(w, http.StatusNotFound, "no such route; "+base+"/openapi.json lists all")
	})
}

// A refusal records the status and header of an answer.
type refusal struct {
	header http.Header
	status int
}

func (r *refusal) Header() http.Header            { return r.header }
func (r *refusal) WriteHeader(status int)         { r.status = status }
func (r *refusal) Write(data []byte) (int, error) { return len(data), nil }

// register registers the operations and returns their OpenAPI document.
func (r *routes) register(mux humago.Mux) []byte {
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "zester", Version: "1", Description: "Run functions on peels, and see what they return.",
				License: &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"},
			},
			Servers: []*huma.Server{{URL: "/", Description: "the master that sent this document"}},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {
						Type:   "http",
						Scheme: "bearer",
						Description: "A token of `zester auth token create`; the scopes are read, dispatch, sync, " +
							"admin, mcp and metrics.",
					},
				},
			},
		},
		Formats:                      huma.DefaultFormats,
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
	a := humago.New(mux, config)
	a.UseMiddleware(r.guard.middleware)
	huma.Register(a, r.over(api.JobDispatch.HTTP), r.dispatchJob)
	register(a, r.over(api.JobList.HTTP), r.listJobs)
	register(a, r.over(api.JobShow.HTTP), r.showJob)
	register(a, r.over(api.JobReturns.HTTP), r.jobReturns)
	register(a, r.over(api.JobGroups.HTTP), r.jobGroups)
	register(a, r.over(api.JobCancel.HTTP), r.cancelJob)
	huma.Register(a, r.eventsOperation(), r.jobEvents)
	register(a, r.over(api.PeelList.HTTP), r.listPeels)
	register(a, r.over(api.PeelShow.HTTP), r.showPeel)
	register(a, r.over(api.TargetResolve.HTTP), r.resolveTarget)
	register(a, r.over(api.CoverageList.HTTP), r.coverage)
	register(a, r.over(api.CoverageShow.HTTP), r.coverageEntry)
	register(a, r.over(api.CoverageExplain.HTTP), r.why)
	register(a, r.over(api.ProblemList.HTTP), r.problems)
	register(a, r.over(api.TimelineShow.HTTP), r.timeline)
	register(a, r.over(api.LoadShow.HTTP), r.load)
	register(a, r.over(api.NowShow.HTTP), r.now)
	register(a, r.over(api.ApprovalList.HTTP), r.approvals)
	r.registerSync(a)
	r.registerSchedules(a)
	r.registerAlerts(a)
	r.registerActions(a)
	return encodeOpenAPI(a.OpenAPI())
}

// Which scopes open a route; admin opens all.
var (
	scrapeScopes = []credential.Scope{credential.ScopeRead, credential.ScopeMetrics}
	eitherScope  = []credential.Scope{credential.ScopeRead, credential.ScopeDispatch}
)

// scrapeVerb is what the rules must allow who made a token that reads metrics. They count the fires of the whole fleet.
const scrapeVerb access.Verb = "coverage.status"

// All malformed requests get status 400; huma uses 422 for some.
func init() {
	huma.DefaultArrayNullable = false // no answer has null for a list: tests look at each

	newError := huma.NewError
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		if status == http.StatusUnprocessableEntity {
			status = http.StatusBadRequest
		}
		return newError(status, msg, errs...)
	}
}

// problem writes an answer of RFC 9457.
func problem(w http.ResponseWriter, status int, detail string) {
	data, _ := json.Marshal(huma.NewError(status, detail))
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// schemaName names a schema by its type, with "Sync" before the types of the reconciler's answers.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if t.PkgPath() == reflect.TypeFor[status.Sync]().PkgPath() && !strings.HasPrefix(name, "Sync") {
		return "Sync" + name
	}
	return name
}

// Ask asks a service in the name of the caller. The service writes the audit log if the verb changes something.
func (r *routes) Ask(ctx context.Context, noun, verb string, question, answer any) error {
	err := r.Questions.For(callerOf(ctx)).Ask(ctx, noun, verb, question, answer)
	if !wire.Reads(verb) && api.CodeOf(err) != api.CodeUnavailable {
		markRecorded(ctx)
	}
	return err
}

// record writes an entry of the caller to the audit log.
func (r *routes) record(ctx context.Context, e audit.Entry) {
	markRecorded(ctx)
	r.Audit.Write(ctx, e.By(callerOf(ctx)))
}

// answerError returns the problem for an error of a service.
func answerError(err error) error {
	switch code := apiserver.AnswerCode(err); {
	case errors.Is(err, context.DeadlineExceeded), code == api.CodeUnavailable:
		return unavailable(err)
	case code == api.CodeForbidden:
		return huma.Error403Forbidden(sentence(err))
	case code == api.CodeNotFound:
		return huma.Error404NotFound(sentence(err))
	}
	return huma.Error400BadRequest(sentence(err))
}

func unavailable(err error) error {
	return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(sentence(err)), retryAfter(1))
}

func retryAfter(seconds int) http.Header { return http.Header{"Retry-After": {strconv.Itoa(seconds)}} }

// sentence returns the text of an error on one line, in plain words.
func sentence(err error) string { return strings.ReplaceAll(dial.Explain(err, "").Error(), "\n", "; ") }
