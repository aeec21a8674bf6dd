package state

// GitLatest holds the arguments of git.latest.
type GitLatest struct {
	Path  string `yaml:"path" doc:"directory of the clone"`
	URL   string `yaml:"url" doc:"address of the repository"`
	Rev   string `yaml:"rev" doc:"branch, tag or commit; default: what the repository has checked out"`
	User  string `yaml:"user" doc:"user who runs git and owns the clone; default: root"`
	Force bool   `yaml:"force" doc:"throw away changes of files that Git knows"`
}

var (
	gitURL = newShape(`^((https?|ssh|git|file)://|[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:|/)[^\s\x00-\x1f]+$`, anyLength)
	gitRev = newShape(`^[A-Za-z0-9][A-Za-z0-9._/+-]*$`, 200)
)

func (a *GitLatest) setMain(name string) { setDefault(&a.Path, name) }
func (a *GitLatest) owns() []resource    { return []resource{{"path", a.Path, false}} }

func (a *GitLatest) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	c.removable("path", a.Path)
	c.name("user", a.User)
	switch {
	case a.URL == "":
		c.missing("url", "give the address of the repository")
	case !gitURL.MatchString(a.URL):
		c.add("url", "%q is not an address that git clones, such as https://example.com/app.git", a.URL)
	}
	if a.Rev != "" && !gitRev.MatchString(a.Rev) {
		c.add("rev", "%q is not a branch, tag or commit", a.Rev)
	}
	return c.problems
}
