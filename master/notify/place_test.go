package notify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/status"
)

const commit = "6d0a4f3c4d0c1ab6a0ec0d2a1f8a27d7a2d7a2d1"

// A server is a forge that notes what it is asked, as it travels, and answers as the test wants.
type server struct {
	*httptest.Server
	asked  []asked
	status int
	header http.Header
	answer string
}

type asked struct {
	path   string // as it was sent, escaped
	header http.Header
	body   string
}

func serve(t *testing.T) *server {
	s := &server{status: http.StatusCreated, header: http.Header{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			t.Errorf("%s: %v", r.Method, err)
		}
		s.asked = append(s.asked, asked{r.RequestURI, r.Header, string(body)})
		maps.Copy(w.Header(), s.header)
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func newPlace(t *testing.T, o notify.PlaceOptions) *notify.Place {
	t.Helper()
	o.Name = "fleet"
	p, err := notify.NewPlace(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var success = notify.Event{
	Kind: notify.Completed, State: forge.Success, Text: "2/2 peels in 3.0 s", Branch: "main",
	Revision: notify.Revision{Commit: commit, Author: `Ada "the Countess" <ada@example.com>`, Subject: "say ${commit} \\ twice"},
	Counts:   status.Counts{Peels: 2, Applied: 2}, Took: 3 * time.Second,
}

func TestEachForgeGetsRequestsInItsOwnForm(t *testing.T) {
	for _, c := range []struct {
		provider   notify.PlaceProvider
		repo       string // path of the repository
		path       string
		header     map[string]string
		body, last string // of a success, and of a commit that another took the place of
	}{
		{
			notify.GitHub, "/ops/fleet.git", "/api/v3/repos/ops/fleet/statuses/" + commit,
			map[string]string{"Authorization": "Bearer t0ken", "Accept": "application/vnd.github+json", "X-Github-Api-Version": "2022-11-28"},
			`{"context":"zester/fleet","description":"2/2 peels in 3.0 s","state":"success"}`, "error",
		},
		{
			notify.GitLab, "/group/sub/fleet", "/api/v4/projects/group%2Fsub%2Ffleet/statuses/" + commit,
			map[string]string{"Private-Token": "t0ken", "Authorization": ""},
			`{"description":"2/2 peels in 3.0 s","name":"zester/fleet","ref":"main","state":"success"}`, "canceled",
		},
		{
			notify.Gitea, "/git/ops/fleet", "/git/api/v1/repos/ops/fleet/statuses/" + commit,
			map[string]string{"Authorization": "token t0ken"},
			`{"context":"zester/fleet","description":"2/2 peels in 3.0 s","state":"success"}`, "error",
		},
	} {
		t.Run(string(c.provider), func(t *testing.T) {
			s := serve(t)
			p := newPlace(t, notify.PlaceOptions{Provider: c.provider, URL: s.URL + c.repo, Token: file(t, "t0ken\n")})
			if err := p.Send(t.Context(), success); err != nil {
				t.Fatal(err)
			}
			got := s.asked[0]
			if got.path != c.path || got.body != c.body || got.header.Get("Content-Type") != "application/json" || got.header.Get("User-Agent") == "" {
				t.Errorf("asked %+v", got)
			}
			for name, want := range c.header {
				if got.header.Get(name) != want {
					t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
				}
			}
			for _, state := range []forge.State{forge.Pending, forge.Failure, forge.Canceled} {
				if err := p.Send(t.Context(), notify.Event{State: state, Revision: notify.Revision{Commit: commit}, Text: strings.Repeat("ä", 200)}); err != nil {
					t.Fatal(err)
				}
			}
			var last struct{ State, Description string }
			if err := json.Unmarshal([]byte(s.asked[3].body), &last); err != nil {
				t.Fatal(err)
			}
			most := map[notify.PlaceProvider]int{notify.GitHub: 140}[c.provider]
			if last.State != c.last || most > 0 && len(last.Description) > most || len(last.Description) > 255 || !utf8.ValidString(last.Description) {
				t.Errorf("told %+v", last)
			}
		})
	}
}

func TestGitHubItselfIsAskedAtItsAPI(t *testing.T) {
	asked := ""
	way := roundTrip(func(r *http.Request) (*http.Response, error) {
		asked = r.URL.String()
		return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
	})
	p := newPlace(t, notify.PlaceOptions{Provider: notify.GitHub, URL: "https://github.com/ops/fleet", Token: file(t, "t"), Transport: way})
	if err := p.Send(t.Context(), success); err != nil || asked != "https://api.github.com/repos/ops/fleet/statuses/"+commit {
		t.Errorf("%v, asked %s", err, asked)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestACredentialIsReplacedWithoutARestart(t *testing.T) {
	s := serve(t)
	token := file(t, "old")
	p := newPlace(t, notify.PlaceOptions{Provider: notify.Gitea, URL: s.URL + "/ops/fleet", Token: token})
	for _, text := range []string{"old", "new"} {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Send(t.Context(), success); err != nil {
			t.Fatal(err)
		}
		if got := s.asked[len(s.asked)-1].header.Get("Authorization"); got != "token "+text {
			t.Errorf("sent %q", got)
		}
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	var failed *outbound.Error
	if err := p.Send(t.Context(), success); !errors.As(err, &failed) || failed.Final || !strings.Contains(err.Error(), token) {
		t.Errorf("without its file: %v", err)
	}
	if len(s.asked) != 2 {
		t.Errorf("asked %d times", len(s.asked))
	}
}

func TestWhatAnAnswerMeans(t *testing.T) {
	const twice = `{"message":"Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via \"enqueue\")"}`
	for _, c := range []struct {
		name     string
		provider notify.PlaceProvider
		status   int
		answer   string
		after    string
		want     string // of the error; empty: there is none
		final    bool
		wait     time.Duration
	}{
		{name: "created", provider: notify.GitHub, status: 201},
		{name: "GitLab has that status", provider: notify.GitLab, status: 400, answer: twice},
		{name: "GitLab refuses", provider: notify.GitLab, status: 400, answer: `{"error":"state is missing"}`, want: "state is missing", final: true},
		{name: "another forge says that", provider: notify.GitHub, status: 400, answer: twice, want: "400", final: true},
		{name: "commit is gone", provider: notify.GitHub, status: 422, answer: `{"message":"No commit found for SHA"}`, want: "No commit found", final: true},
		{name: "credential", provider: notify.GitHub, status: 401, want: "credential may lack"},
		{name: "hidden repo", provider: notify.GitHub, status: 404, want: "url is wrong"},
		{name: "rate", provider: notify.GitHub, status: 429, after: "90", want: "429", wait: 90 * time.Second},
		{name: "down", provider: notify.Gitea, status: 503, answer: "<html>\n<b>bye\x07</b>" + strings.Repeat("x", 1000), want: "<html> <b>bye </b>x"},
		{name: "moved", provider: notify.Gitea, status: 302, want: "its url has changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, elsewhere := serve(t), serve(t)
			s.status, s.answer = c.status, c.answer
			s.header.Set("Location", elsewhere.URL)
			if c.after != "" {
				s.header.Set("Retry-After", c.after)
			}
			err := newPlace(t, notify.PlaceOptions{Provider: c.provider, URL: s.URL + "/ops/fleet", Token: file(t, "s3cret")}).Send(t.Context(), success)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *outbound.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.Final != c.final || e.After != c.wait {
				t.Fatalf("%+v, want %q", err, c.want)
			}
			if len(err.Error()) > 400 || strings.Contains(err.Error(), "s3cret") || strings.ContainsAny(err.Error(), "\n\x07") {
				t.Errorf("the error is %q", err)
			}
			if len(elsewhere.asked) > 0 {
				t.Error("a redirect was followed")
			}
		})
	}
}

func TestAWebhookPostsWhatItsTemplateSays(t *testing.T) {
	s := serve(t)
	s.status = http.StatusNoContent
	if err := newPlace(t, notify.PlaceOptions{Provider: notify.Webhook, URL: s.URL + "/x?key=1"}).Send(t.Context(), success); err != nil {
		t.Fatal(err)
	}
	var every map[string]any
	if err := json.Unmarshal([]byte(s.asked[0].body), &every); err != nil {
		t.Fatal(err)
	}
	if s.asked[0].path != "/x?key=1" || len(every) != 18 || every["author"] != success.Revision.Author || every["subject"] != success.Revision.Subject || every["seconds"] != 3.0 || every["peels"] != 2.0 {
		t.Errorf("%+v, %v", s.asked[0], every)
	}
	if s.asked[0].header.Get("X-Signature") != "" {
		t.Error("signed without a key")
	}

	p := newPlace(t, notify.PlaceOptions{
		Provider: notify.Webhook, URL: s.URL, Secret: file(t, "0123456789abcdef"), Body: `{"text": "${short} $$5 ${state} ${subject}"}`,
	})
	if err := p.Send(t.Context(), success); err != nil {
		t.Fatal(err)
	}
	got := s.asked[1]
	if got.body != `{"text": "6d0a4f3 $5 success say ${commit} \\ twice"}` {
		t.Errorf("posted %s", got.body)
	}
	mac := hmac.New(sha256.New, []byte("0123456789abcdef"))
	mac.Write([]byte(got.body))
	if got.header.Get("X-Signature") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("signed %s", got.header.Get("X-Signature"))
	}
}

func TestPlacesThatCannotBeUsed(t *testing.T) {
	forge := notify.PlaceOptions{Name: "f", Provider: notify.GitHub, URL: "https://forge.example/ops/fleet", Token: "t"}
	hook := notify.PlaceOptions{Name: "f", Provider: notify.Webhook, URL: "https://chat.example/x"}
	mail := notify.PlaceOptions{Name: "f", Provider: notify.Mail, URL: "smtp://mail.example:587", Letter: notify.Letter{From: "z@mail.example", To: []string{"a@b.example"}}}
	for _, c := range []struct {
		name string
		from notify.PlaceOptions
		set  func(*notify.PlaceOptions)
		want string
	}{
		{"name", forge, func(o *notify.PlaceOptions) { o.Name = "a.b" }, `"a.b": want a name`},
		{"provider", forge, func(o *notify.PlaceOptions) { o.Provider = "sourceforge" }, `"sourceforge" is none of`},
		{"local path", forge, func(o *notify.PlaceOptions) { o.URL = "/srv/fleet" }, "not one of http"},
		{"ssh", forge, func(o *notify.PlaceOptions) { o.URL = "git@forge.example:ops/fleet" }, "not one of http"},
		{"password in the URL", forge, func(o *notify.PlaceOptions) { o.URL = "https://u:pw@forge.example/ops/fleet" }, "without a user"},
		{"http", forge, func(o *notify.PlaceOptions) { o.URL = "http://forge.example/ops/fleet" }, "use https"},
		{"no token", forge, func(o *notify.PlaceOptions) { o.Token = "" }, "has no token"},
		{"events of a forge", forge, func(o *notify.PlaceOptions) { o.Events = []notify.Kind{notify.Blocked} }, "are for slack"},
		{"unknown event", hook, func(o *notify.PlaceOptions) { o.Events = []notify.Kind{"blokked"} }, `event "blokked" is none of`},
		{"address twice", hook, func(o *notify.PlaceOptions) { o.URLFile = "u" }, "one of url and url_file"},
		{"no address", hook, func(o *notify.PlaceOptions) { o.URL = "" }, "one of url and url_file"},
		{"addresses of a webhook", hook, func(o *notify.PlaceOptions) { o.Letter.To = []string{"a@b.example"} }, "are for mail"},
		{"mail over http", mail, func(o *notify.PlaceOptions) { o.URL = "https://mail.example" }, "not smtp://HOST:PORT"},
		{"password of mail in the URL", mail, func(o *notify.PlaceOptions) { o.URL = "smtp://u:pw@mail.example" }, "not smtp://HOST:PORT"},
		{"mail without a sender", mail, func(o *notify.PlaceOptions) { o.Letter.From = "" }, "its from"},
		{"mail to nobody", mail, func(o *notify.PlaceOptions) { o.Letter.To = nil }, "0 addresses"},
		{"header in an address", mail, func(o *notify.PlaceOptions) { o.Letter.To = []string{"a@b.example\r\nBcc: c@d.example"} }, "no address of mail"},
		{"user without password", mail, func(o *notify.PlaceOptions) { o.Letter.User = "u" }, "belong together"},
		{"body for a forge", forge, func(o *notify.PlaceOptions) { o.Body = "{}" }, "are for webhooks"},
		{"owner alone", forge, func(o *notify.PlaceOptions) { o.URL = "https://forge.example/ops" }, "OWNER/REPO"},
		{"project alone", forge, func(o *notify.PlaceOptions) { o.Provider, o.URL = notify.GitLab, "https://forge.example/fleet" }, "GROUP/PROJECT"},
		{"repo alone", forge, func(o *notify.PlaceOptions) { o.Provider, o.URL = notify.Gitea, "https://forge.example/fleet" }, "OWNER/REPO"},
		{"token for a webhook", hook, func(o *notify.PlaceOptions) { o.Token = "t" }, "is for forges"},
		{"unknown value", hook, func(o *notify.PlaceOptions) { o.Body = `{"a": "${comit}"}` }, "${comit}"},
		{"no JSON", hook, func(o *notify.PlaceOptions) { o.Body = `text=${text}` }, "not JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.from
			c.set(&o)
			if _, err := notify.NewPlace(o); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pw") {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func FuzzAnEventFillsATemplate(f *testing.F) {
	f.Add("subject", `a "b" \ ${text} $$ <`+"\x00\xff\u2028")
	f.Fuzz(func(t *testing.T, text, subject string) {
		var posted []byte
		way := roundTrip(func(r *http.Request) (*http.Response, error) {
			posted, _ = io.ReadAll(r.Body)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		p, err := notify.NewPlace(notify.PlaceOptions{Name: "f", Provider: notify.Webhook, URL: "https://chat.example/", Transport: way})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Send(t.Context(), notify.Event{Text: text, Revision: notify.Revision{Commit: commit, Subject: subject}}); err != nil {
			t.Fatal(err)
		}
		var got struct{ Text, Subject string }
		if err := json.Unmarshal(posted, &got); err != nil {
			t.Fatalf("%v: %q", err, posted)
		}
		for sent, text := range map[string]string{got.Text: text, got.Subject: subject} {
			if len(sent) > 600 || strings.ContainsAny(sent, "\n\x00\u202e") {
				t.Errorf("posted %q of %q", sent, text)
			}
			if plain := strings.Trim(text, "abcdefgh "); plain == "" && len(text) < 100 && sent != strings.Join(strings.Fields(text), " ") {
				t.Errorf("posted %q of %q", sent, text)
			}
		}
	})
}

// serveHandler returns the URL of a server.
func serveHandler(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
