package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// A push is the content of a payload about a push or a pull request, for all forges alike.
type push struct {
	push  bool   // the payload is about a push or a pull request
	id    string // of the delivery
	repos []string
	refs  []string
}

// payload has the required fields of all forges. No name has two meanings, except changes.
type payload struct {
	ID         string     `json:"id"`
	EventType  string     `json:"eventType"`
	Ref        string     `json:"ref"`
	Repository repository `json:"repository"`
	Project    struct {
		HTTP string `json:"git_http_url"`
		SSH  string `json:"git_ssh_url"`
		Web  string `json:"web_url"`
	} `json:"project"`
	Push struct {
		Changes []struct {
			New *namedRef `json:"new"`
			Old *namedRef `json:"old"`
		} `json:"changes"`
	} `json:"push"`
	PullRequest struct {
		Base struct {
			Ref string `json:"ref"`
		} `json:"base"`
	} `json:"pull_request"`
	MergeRequest struct {
		Target string `json:"target_branch"`
	} `json:"object_attributes"`
	Changes  json.RawMessage `json:"changes"` // GitLab's merge requests have an object under this name
	Resource struct {
		RefUpdates []struct {
			Name string `json:"name"`
		} `json:"refUpdates"`
		Repository struct {
			RemoteURL string `json:"remoteUrl"`
		} `json:"repository"`
	} `json:"resource"`
}

type repository struct {
	CloneURL string `json:"clone_url"`
	SSHURL   string `json:"ssh_url"`
	URL      string `json:"url"`
	Links    struct {
		HTML struct {
			Href string `json:"href"`
		} `json:"html"`
		Clone []struct {
			Href string `json:"href"`
		} `json:"clone"`
	} `json:"links"`
}

type namedRef struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

// hints are the events after which the branch and its pull requests are read.
var hints = []string{
	"push", "Push Hook", "repo:push", "repo:refs_changed",
	"pull_request", "pull_request_sync", "Merge Request Hook",
}

// parse reads an authentic delivery. It ignores payloads that are neither about a push nor about a pull request.
func (d delivery) parse(p Provider) (push, error) {
	event, id := d.event(p)
	out := push{push: slices.Contains(hints, event), id: id}
	if p != Azure && !out.push {
		return out, nil
	}
	var in payload
	if err := json.Unmarshal(d.body, &in); err != nil {
		return push{}, err
	}
	if p == Azure {
		out.push, out.id = in.EventType == "git.push", in.ID
	}
	if out.id == "" {
		digest := sha256.Sum256(d.body)
		out.id = hex.EncodeToString(digest[:])
	}
	out.repos = in.urls()
	out.refs = in.refs(p)
	return out, nil
}

// event returns the kind of a delivery and its ID.
func (d delivery) event(p Provider) (event, id string) {
	switch p {
	case GitHub:
		return d.header.Get("X-GitHub-Event"), d.header.Get("X-GitHub-Delivery")
	case GitLab:
		return d.header.Get("X-Gitlab-Event"), d.first("Webhook-Id", "X-Gitlab-Event-UUID")
	case Gitea:
		return d.first("X-Forgejo-Event", "X-Gitea-Event", "X-Gogs-Event"),
			d.first("X-Forgejo-Delivery", "X-Gitea-Delivery", "X-Gogs-Delivery")
	case Bitbucket:
		return d.header.Get("X-Event-Key"), d.first("X-Request-UUID", "X-Request-Id")
	case Azure:
		return "", ""
	default:
		return "push", d.header.Get("X-Delivery")
	}
}

func (in *payload) urls() []string {
	r := in.Repository
	out := []string{
		r.CloneURL, r.SSHURL, r.URL, r.Links.HTML.Href,
		in.Project.HTTP, in.Project.SSH, in.Project.Web, in.Resource.Repository.RemoteURL,
	}
	for _, c := range r.Links.Clone {
		out = append(out, c.Href)
	}
	return out
}

func (in *payload) refs(p Provider) []string {
	out := []string{in.Ref}
	for _, u := range in.Resource.RefUpdates {
		out = append(out, u.Name)
	}
	for _, target := range []string{in.PullRequest.Base.Ref, in.MergeRequest.Target} {
		if target != "" {
			out = append(out, "refs/heads/"+target)
		}
	}
	if p != Bitbucket {
		return out
	}
	for _, c := range in.Push.Changes {
		for _, ref := range []*namedRef{c.New, c.Old} {
			if ref != nil && ref.Type == "branch" {
				out = append(out, "refs/heads/"+ref.Name)
			}
		}
	}
	var server []struct {
		Ref struct {
			ID string `json:"id"`
		} `json:"ref"`
	}
	if json.Unmarshal(in.Changes, &server) == nil {
		for _, c := range server {
			out = append(out, c.Ref.ID)
		}
	}
	return out
}

func (p push) moves(branch string) bool { return slices.Contains(p.refs, "refs/heads/"+branch) }

func (p push) of(repo string) bool {
	want := sameRepo(repo)
	return slices.ContainsFunc(p.repos, func(u string) bool { return sameRepo(u) == want })
}

// sameRepo returns host and path of a repository's address, equal for https and ssh; "" if it is no address.
func sameRepo(address string) string {
	if !strings.Contains(address, "://") {
		host, path, ok := strings.Cut(address, ":")
		if !ok {
			return ""
		}
		address = "ssh://" + host + "/" + strings.TrimPrefix(path, "/")
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	path := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	if path == "" {
		return ""
	}
	return strings.ToLower(u.Hostname() + "/" + path)
}
