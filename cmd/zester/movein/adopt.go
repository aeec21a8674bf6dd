package movein

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/peel/survey"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A LiveFile is what a peel says of a file.
type LiveFile struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Mode    string `json:"mode"`
	User    string `json:"user"`
	Group   string `json:"group"`
	Target  string `json:"target"`  // of a symbolic link
	Suspect string `json:"suspect"` // why the peel says that Content has a secret
	Content []byte `json:"content"`
}

// A LiveUnit is what a peel says of a unit of systemd.
type LiveUnit struct {
	Name    string `json:"name"`
	Load    string `json:"load"`
	Active  string `json:"active"`
	Enabled string `json:"enabled"`
	// the timers, sockets and paths that start it
	TriggeredBy []string `json:"triggered_by"`
}

// Starter returns the unit whose state says how this one runs, empty if it is its own. A unit that a timer starts has
// done its work in between, and one that does not run may wait for a socket. A state service.dead would be wrong.
func (u LiveUnit) Starter() string {
	for _, name := range u.TriggeredBy {
		isIdle := u.Active == "inactive" || u.Active == "failed"
		if u.Enabled != "enabled" && u.Load != "masked" && (isIdle || strings.HasSuffix(name, ".timer")) {
			return name
		}
	}
	return ""
}

// An Adopted is a state that a host fulfils.
type Adopted struct {
	ID       string
	Function string
	Source   string // file in the repo with Content, for file.managed
	Content  []byte
	Secret   string // why Content does not belong in plain text in a repo, empty if it does
	Note     string // what the state does not say
	args     *yaml.Node
}

// AdoptFile returns the state of a file, a directory or a symbolic link of a host.
func AdoptFile(host string, f LiveFile) (Adopted, error) {
	s := Adopted{ID: f.Path, args: &yaml.Node{Kind: yaml.MappingNode}}
	switch f.Kind {
	case "absent":
		return s, fmt.Errorf("%s has no %s", host, f.Path)
	case "file":
		if strings.Contains(f.Path, "/.git") {
			return s, fmt.Errorf("cannot keep %s in the repo: Git gives files named .git… a meaning", f.Path)
		}
		s.Function, s.Content = "file.managed", f.Content
		s.Secret = cmp.Or(f.Suspect, survey.Secret(f.Path, f.Content)) // the peel alone knows the secrets of settings
		s.Source = path.Join("files", adoptedRef, refWord(host), f.Path)
		set(s.args, "source", s.Source)
	case "directory":
		s.Function = "file.directory"
	case "symbolic link":
		s.Function = "file.symlink"
		set(s.args, "target", f.Target)
		return s, s.check()
	default:
		return s, fmt.Errorf("cannot adopt %s: it is a %s, and states are of files, directories and symbolic links",
			f.Path, f.Kind)
	}
	set(s.args, "user", f.User)
	set(s.args, "group", f.Group)
	set(s.args, "mode", f.Mode)
	return s, s.check()
}

// AdoptPackage returns the state of an installed package. version is empty if the host does not have it.
func AdoptPackage(host, name, version string) (Adopted, error) {
	if version == "" {
		return Adopted{}, fmt.Errorf("%s has no package %s; zester %s pkg.list names those that it has", host, name,
			host)
	}
	s := Adopted{
		ID:       name,
		Function: "pkg.installed",
		Note:     "any version will do; the host has " + version,
		args:     &yaml.Node{Kind: yaml.MappingNode},
	}
	return s, s.check()
}

// AdoptUnit returns the state of a unit of systemd, as it runs and starts at boot. Of a unit with a starter adopt that.
func AdoptUnit(host string, u LiveUnit) (Adopted, error) {
	s := Adopted{ID: u.Name, args: &yaml.Node{Kind: yaml.MappingNode}}
	isRunning := u.Active == "active" || u.Active == "reloading"
	switch {
	case u.Load == "not-found":
		return s, fmt.Errorf("%s has no unit %s", host, u.Name)
	case u.Load == "masked" || u.Enabled == "masked":
		s.Function = "service.dead"
		set(s.args, "mask", true)
	case u.Active == "activating" || u.Active == "deactivating":
		return s, fmt.Errorf("cannot adopt %s: it is %s; try again when it has started or stopped", u.Name, u.Active)
	case isRunning:
		s.Function = "service.running"
		s.start(u.Enabled)
	case u.Enabled == "enabled":
		s.Function, s.Note = "service.enabled", "it does not run now, which the state does not say"
	case u.Enabled != "disabled":
		return s, fmt.Errorf("cannot adopt %s: it does not run, and something else than the boot starts it (%s); "+
			"adopt what does, such as a timer or a socket", u.Name, cmp.Or(u.Enabled, "no setting"))
	default:
		s.Function = "service.dead"
		s.start(u.Enabled)
	}
	if u.Active == "failed" {
		s.Note = "it failed on the host, which the state does not say"
	}
	return s, s.check()
}

// start adds whether a unit starts at boot. A static unit, for example, has no such setting.
func (s *Adopted) start(enabled string) {
	if enabled == "enabled" || enabled == "disabled" {
		set(s.args, "enable", enabled == "enabled")
	}
}

// Test returns the arguments with which the function says whether the host fulfils the state. A record of jobs must not
// have the content of a file, so they have none: of a file they prove owner, group and mode.
func (s *Adopted) Test() map[string]any {
	args := map[string]any{}
	for i := 0; i < len(s.args.Content); i += 2 {
		var value any
		if err := s.args.Content[i+1].Decode(&value); err != nil {
			panic(err) // set has encoded it
		}
		args[s.args.Content[i].Value] = value
	}
	if s.Source != "" {
		delete(args, "source")
		args["content"] = ""
		args["replace"] = false
	}
	args["test"] = true
	return args
}

// check reads the state as lint reads it.
func (s *Adopted) check() error {
	text, err := Settings(nil, []Adopted{*s})
	if err != nil {
		return err
	}
	doc, err := strictyaml.Parse("state", text)
	if err == nil {
		_, err = state.Parse(doc.Get(state.Key), state.Options{})
	}
	if list, ok := errors.AsType[strictyaml.Errors](err); ok {
		return fmt.Errorf("cannot write a state for %s: %s", s.ID, list[0].Msg)
	}
	return err
}

// adoptedRef is the folder of settings files with adopted states, and of the contents of files below files/.
const adoptedRef = "adopted"

// AdoptedRef returns the name of the settings file with the adopted states of a host.
func AdoptedRef(host string) string { return adoptedRef + "." + refWord(host) }

// Settings returns a settings file with states. old is the file until now, which may be nil; all that is in it stays.
func Settings(old []byte, states []Adopted) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(old, &doc); err != nil {
		return nil, err
	}
	top := &yaml.Node{Kind: yaml.MappingNode}
	if len(doc.Content) > 0 {
		top = doc.Content[0]
	}
	all := valueOf(top, state.Key)
	if all == nil {
		all = &yaml.Node{Kind: yaml.MappingNode}
		set(top, state.Key, all)
	}
	if top.Kind != yaml.MappingNode || all.Kind != yaml.MappingNode {
		return nil, errors.New("the file has no map under states, to which states can be added")
	}
	for _, s := range states {
		if valueOf(all, s.ID) != nil {
			return nil, fmt.Errorf("the file has the state %s already", s.ID)
		}
		fields := &yaml.Node{Kind: yaml.MappingNode}
		set(fields, s.Function, s.args)
		set(all, s.ID, fields)
	}
	return encodeNode(top)
}

// valueOf returns the value of a key of a map, nil if it has none.
func valueOf(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}
