//go:build linux

package account

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// The user and the groups of these tests. No host has them.
const (
	ztUID = 64321
	ztGID = 64322
)

// planned returns a host with the user zt-u, whose main group is zt-m, and the group zt-g without members.
func planned() *host.World {
	w := host.New()
	w.SetUser(host.User{
		Exists: true, Name: "zt-u", UID: ztUID, GID: ztGID, Comment: "Ada", Home: "/nowhere/zt-u", Shell: "/bin/sh", Hash: "$old",
	})
	w.SetUser(host.User{Name: "zt-new"})
	for name, gid := range map[string]uint32{"zt-m": ztGID, "zt-g": ztGID + 1} {
		w.SetGroup(host.Group{Exists: true, Name: name, GID: gid})
	}
	w.SetGroup(host.Group{Name: "zt-new"})
	return w
}

// words returns what steps do, and predicts them.
func words(w *host.World, steps []host.Step) string {
	var all []string
	for _, s := range steps {
		text := s.Do + " " + s.What
		if s.Before+s.After != "" {
			text += ": " + s.Before + " to " + s.After
		}
		if s.Deletes {
			text += ", deletes"
		}
		all = append(all, text)
		s.Predict(w)
	}
	return strings.Join(all, "; ")
}

func TestStepsOfAUserWhoExists(t *testing.T) {
	comment, none := "Ada L.", ""
	for name, c := range map[string]struct {
		want  state.UserPresent
		steps string
		err   string
	}{
		"as it is":            {want: state.UserPresent{}},
		"all the same":        {want: state.UserPresent{UID: new(uint32(ztUID)), Group: "zt-m", Home: "/nowhere/zt-u", Shell: "/bin/sh", Password: "$old"}},
		"another number":      {want: state.UserPresent{UID: new(uint32(64400))}, steps: "uid zt-u: 64321 to 64400"},
		"another main group":  {want: state.UserPresent{Group: "zt-g"}, steps: "gid zt-u: 64322 to 64323"},
		"a group that is not": {want: state.UserPresent{Group: "zt-new"}, err: `there is no group "zt-new"`},
		"groups":              {want: state.UserPresent{Groups: []string{"zt-g", "zt-m"}}, steps: "groups zt-u:  to zt-g,zt-m"},
		"groups that are not": {want: state.UserPresent{Groups: []string{"zt-g", "zt-new"}}, err: `there is no group "zt-new"`},
		"home":                {want: state.UserPresent{Home: "/other"}, steps: "home zt-u: /nowhere/zt-u to /other"},
		"shell":               {want: state.UserPresent{Shell: "/bin/bash"}, steps: "shell zt-u: /bin/sh to /bin/bash"},
		"comment":             {want: state.UserPresent{Comment: &comment}, steps: "comment zt-u: Ada to Ada L."},
		"no comment":          {want: state.UserPresent{Comment: &none}, steps: "comment zt-u: Ada to "},
		"password":            {want: state.UserPresent{Password: "$new"}, steps: "password zt-u"},
		"all":                 {want: state.UserPresent{UID: new(uint32(64400)), Shell: "/bin/bash", Password: "$new"}, steps: "uid zt-u: 64321 to 64400; shell zt-u: /bin/sh to /bin/bash; password zt-u"},
	} {
		w := planned()
		c.want.Name = "zt-u"
		steps, err := UserPresent(t.Context(), w, &c.want)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.err)
		}
		if got := words(w, steps); got != c.steps {
			t.Errorf("%s: the steps are %q, want %q", name, got, c.steps)
		}
		if again, err := UserPresent(t.Context(), w, &c.want); err == nil && len(again) > 0 {
			t.Errorf("%s: after the predicted steps: %s", name, words(w, again))
		}
	}
}

func TestAUserKeepsItsOtherGroups(t *testing.T) {
	w := planned()
	w.SetGroup(host.Group{Exists: true, Name: "zt-g", GID: ztGID + 1, Members: []string{"zt-u", "zt-v"}})
	steps, err := UserPresent(t.Context(), w, &state.UserPresent{Name: "zt-u", Groups: []string{"zt-m", "zt-g"}})
	if got := words(w, steps); err != nil || got != "groups zt-u:  to zt-m" {
		t.Errorf("%q, %v", got, err)
	}
	if g, err := w.Group(t.Context(), "zt-g"); err != nil || len(g.Members) != 2 {
		t.Errorf("%v, %v", g, err)
	}
}

func TestStepsOfANewUser(t *testing.T) {
	yes, no, comment := true, false, "Ada"
	for name, c := range map[string]struct {
		want  state.UserPresent
		steps string
		err   string
		home  bool
		has   host.User
	}{
		"with its own group": {
			want:  state.UserPresent{UID: new(uint32(64500)), Group: "zt-g"},
			steps: "create user zt-new:  to uid 64500, gid 64323, home /home/zt-new", home: true,
			has: host.User{Exists: true, Name: "zt-new", UID: 64500, GID: 64323, Home: "/home/zt-new"},
		},
		"all": {
			want:  state.UserPresent{UID: new(uint32(64500)), Group: "zt-g", Groups: []string{"zt-m"}, Home: "/nowhere/n", Shell: "/bin/sh", Comment: &comment, Password: "$p"},
			steps: "create user zt-new:  to uid 64500, gid 64323, home /nowhere/n; password zt-new", home: true,
			has: host.User{Exists: true, Name: "zt-new", UID: 64500, GID: 64323, Home: "/nowhere/n", Shell: "/bin/sh", Comment: "Ada", Hash: "$p"},
		},
		"without a home": {
			want:  state.UserPresent{UID: new(uint32(64500)), Group: "zt-g", CreateHome: &no},
			steps: "create user zt-new:  to uid 64500, gid 64323, home /home/zt-new",
			has:   host.User{Exists: true, Name: "zt-new", UID: 64500, GID: 64323, Home: "/home/zt-new"},
		},
		"of the system": {
			want:  state.UserPresent{UID: new(uint32(64500)), Group: "zt-g", System: true},
			steps: "create user zt-new:  to uid 64500, gid 64323, home /home/zt-new",
			has:   host.User{Exists: true, Name: "zt-new", UID: 64500, GID: 64323, Home: "/home/zt-new"},
		},
		"of the system with a home": {
			want:  state.UserPresent{UID: new(uint32(64500)), Group: "zt-g", System: true, CreateHome: &yes},
			steps: "create user zt-new:  to uid 64500, gid 64323, home /home/zt-new", home: true,
			has: host.User{Exists: true, Name: "zt-new", UID: 64500, GID: 64323, Home: "/home/zt-new"},
		},
		"a main group that is not": {want: state.UserPresent{Group: "zt-none"}, err: `there is no group "zt-none"`},
		"groups that are not":      {want: state.UserPresent{Groups: []string{"zt-none"}}, err: `there is no group "zt-none"`},
	} {
		w := planned()
		w.SetGroup(host.Group{Name: "zt-none"})
		c.want.Name = "zt-new"
		steps, err := UserPresent(t.Context(), w, &c.want)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.err)
		}
		if got := words(w, steps); got != c.steps {
			t.Errorf("%s: the steps are %q, want %q", name, got, c.steps)
		}
		if err != nil {
			continue
		}
		if u, err := w.User(t.Context(), "zt-new"); err != nil || u != c.has {
			t.Errorf("%s: the user is %+v, want %+v", name, u, c.has)
		}
		info, err := w.Stat(c.has.Home)
		if want := c.home; (info.Kind == safefs.Directory) != want || err != nil {
			t.Errorf("%s: the home is %v, %v", name, info.Kind, err)
		}
		if c.home && (info.UID != 64500 || info.GID != 64323) {
			t.Errorf("%s: the home is of %d:%d", name, info.UID, info.GID)
		}
		again, err := UserPresent(t.Context(), w, &c.want)
		if err != nil || len(again) > 0 {
			t.Errorf("%s: after the predicted steps: %s, %v", name, words(w, again), err)
		}
	}
}

// Without a main group useradd gets one that has the name of the user, and its number if that is free.
func TestAUserWithoutAMainGroupGetsOne(t *testing.T) {
	for name, uid := range map[string]*uint32{"any number": nil, "a given number": new(uint32(64500))} {
		w := planned()
		want := &state.UserPresent{Name: "zt-new", UID: uid}
		steps, err := UserPresent(t.Context(), w, want)
		if err != nil || len(steps) != 2 || steps[0].Do != "create group" || steps[1].Do != "create user" {
			t.Fatalf("%s: %v, %v", name, steps, err)
		}
		words(w, steps)
		u, _ := w.User(t.Context(), "zt-new")
		g, _ := w.Group(t.Context(), "zt-new")
		if !u.Exists || !g.Exists || u.GID != g.GID || uid == nil && u.UID != g.GID || uid != nil && u.UID != *uid {
			t.Errorf("%s: %+v, %+v", name, u, g)
		}
	}
}

func TestANewHomeHasTheFilesOfSkel(t *testing.T) {
	files, err := os.ReadDir("/etc/skel")
	if err != nil || len(files) == 0 {
		t.Skip("this host has no /etc/skel")
	}
	w := host.New()
	newHome(w, host.User{Name: "zt-new", UID: 64500, GID: 64501, Home: "/nowhere/n"})
	for _, f := range files {
		info, err := w.Stat("/nowhere/n/" + f.Name())
		if err != nil || info.Kind == safefs.Absent || info.UID != 64500 || info.GID != 64501 {
			t.Errorf("%s: %+v, %v", f.Name(), info, err)
		}
	}
	// A directory that is there stays as it is.
	w.NewDirectory("/nowhere/old", safefs.Info{Kind: safefs.Directory, Mode: 0o700, UID: 1})
	newHome(w, host.User{Name: "zt-new", UID: 64500, GID: 64501, Home: "/nowhere/old"})
	if info, err := w.Stat("/nowhere/old"); err != nil || info.UID != 1 || info.Mode != 0o700 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestStepsOfGroups(t *testing.T) {
	present := func(name string, gid *uint32, system bool) func(*host.World) ([]host.Step, error) {
		return func(w *host.World) ([]host.Step, error) {
			return GroupPresent(t.Context(), w, &state.GroupPresent{Name: name, GID: gid, System: system})
		}
	}
	absent := func(name string) func(*host.World) ([]host.Step, error) {
		return func(w *host.World) ([]host.Step, error) {
			return GroupAbsent(t.Context(), w, &state.GroupAbsent{Name: name})
		}
	}
	for name, c := range map[string]struct {
		plan  func(*host.World) ([]host.Step, error)
		steps string
		of    string
		has   host.Group
	}{
		"is there":            {present("zt-g", nil, false), "", "zt-g", host.Group{Exists: true, Name: "zt-g", GID: ztGID + 1}},
		"has the number":      {present("zt-g", new(uint32(ztGID+1)), false), "", "zt-g", host.Group{Exists: true, Name: "zt-g", GID: ztGID + 1}},
		"has another number":  {present("zt-g", new(uint32(64600)), false), "gid zt-g: 64323 to 64600", "zt-g", host.Group{Exists: true, Name: "zt-g", GID: 64600}},
		"new":                 {present("zt-new", new(uint32(64600)), false), "create group zt-new:  to gid 64600", "zt-new", host.Group{Exists: true, Name: "zt-new", GID: 64600}},
		"should go":           {absent("zt-g"), "remove group zt-g: gid 64323 to , deletes", "zt-g", host.Group{Name: "zt-g"}},
		"is not there anyway": {absent("zt-new"), "", "zt-new", host.Group{Name: "zt-new"}},
	} {
		w := planned()
		steps, err := c.plan(w)
		if got := words(w, steps); got != c.steps || err != nil {
			t.Errorf("%s: the steps are %q, want %q, %v", name, got, c.steps, err)
		}
		g, err := w.Group(t.Context(), c.of)
		if err != nil || g.Exists != c.has.Exists || g.Name != c.has.Name || g.GID != c.has.GID {
			t.Errorf("%s: the group is %+v, want %+v, %v", name, g, c.has, err)
		}
	}
}

// A new group of the system has a number below the numbers of other groups.
func TestTheNumberOfANewGroupIsFree(t *testing.T) {
	for _, system := range []bool{false, true} {
		w := planned()
		a := &state.GroupPresent{Name: "zt-new", System: system}
		first, err := freeGroup(w, a)
		if err != nil || (first < 1000) != system {
			t.Fatalf("system %v: %d, %v", system, first, err)
		}
		w.SetGroup(host.Group{Exists: true, Name: "zt-x", GID: first})
		if next, err := freeGroup(w, a); err != nil || next == first {
			t.Errorf("system %v: %d twice, %v", system, next, err)
		}
	}
}

func TestStepsOfAUserWhoGoes(t *testing.T) {
	for name, c := range map[string]struct {
		user  string
		group host.Group
		home  bool // the home exists
		all   bool // the home goes too
		steps string
	}{
		"is not there":       {user: "zt-new"},
		"alone":              {user: "zt-u", home: true, steps: "remove user zt-u: uid 64321 to , deletes"},
		"with a home":        {user: "zt-u", home: true, all: true, steps: "remove user zt-u: uid 64321 to , deletes; remove /nowhere/zt-u: a directory to , deletes"},
		"the home is gone":   {user: "zt-u", all: true, steps: "remove user zt-u: uid 64321 to , deletes"},
		"with its own group": {user: "zt-u", group: host.Group{Exists: true, Name: "zt-u", GID: ztGID}, steps: "remove user zt-u: uid 64321 to , deletes; remove group zt-u, deletes"},
		"a group of others":  {user: "zt-u", group: host.Group{Exists: true, Name: "zt-u", GID: ztGID, Members: []string{"zt-v"}}, steps: "remove user zt-u: uid 64321 to , deletes"},
	} {
		w := planned()
		w.SetGroup(host.Group{Name: "zt-u"})
		if c.group.Exists {
			w.SetGroup(c.group)
		}
		if c.home {
			w.NewDirectory("/nowhere/zt-u", safefs.Info{Kind: safefs.Directory, Mode: 0o700})
		}
		steps, err := UserAbsent(t.Context(), w, &state.UserAbsent{Name: c.user, RemoveHome: c.all})
		if got := words(w, steps); got != c.steps || err != nil {
			t.Errorf("%s: the steps are %q, want %q, %v", name, got, c.steps, err)
		}
		if again, err := UserAbsent(t.Context(), w, &state.UserAbsent{Name: c.user, RemoveHome: c.all}); err != nil || len(again) > 0 {
			t.Errorf("%s: after the predicted steps: %s, %v", name, words(w, again), err)
		}
		u, errUser := w.User(t.Context(), c.user)
		g, errGroup := w.Group(t.Context(), "zt-u")
		goes := strings.Contains(c.steps, "remove group")
		if errUser != nil || errGroup != nil || u.Exists || g.Exists != (c.group.Exists && !goes) {
			t.Errorf("%s: left are %+v and %+v", name, u, g)
		}
		if info, err := w.Stat("/nowhere/zt-u"); err != nil || (info.Kind == safefs.Absent) != (c.all || !c.home) {
			t.Errorf("%s: the home is %v, %v", name, info.Kind, err)
		}
	}
}

// The main group of another user stays.
func TestTheMainGroupOfAnotherUserStays(t *testing.T) {
	w := planned()
	w.SetGroup(host.Group{Exists: true, Name: "zt-u", GID: ztGID})
	w.SetUser(host.User{Exists: true, Name: "zt-v", UID: 64700, GID: ztGID})
	u, err := w.User(t.Context(), "zt-u")
	if err != nil {
		t.Fatal(err)
	}
	if goes, err := goesWithUser(t.Context(), w, u); goes || err != nil {
		t.Errorf("%v, %v", goes, err)
	}
}

// A planned package may bring a group that is not there.
func TestAGroupThatAPackageMayBringIsUnknown(t *testing.T) {
	w := planned()
	w.SetPackage("zt-web", "1.0")
	for name, a := range map[string]*state.UserPresent{
		"new, further groups":    {Name: "zt-new", Groups: []string{"zt-none"}},
		"new, main group":        {Name: "zt-new", Group: "zt-none"},
		"exists, further groups": {Name: "zt-u", Groups: []string{"zt-none"}},
	} {
		_, err := UserPresent(t.Context(), w, a)
		if _, ok := errors.AsType[*host.UnknownError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgramsOfAccounts(t *testing.T) {
	if err := run(t.Context(), "", "zt-no-such-program"); err == nil || !strings.Contains(err.Error(), "this host has no zt-no-such-program") {
		t.Errorf("%v", err)
	}
	if err := run(t.Context(), "a\n", "grep", "-q", "a"); err != nil {
		t.Errorf("its input: %v", err)
	}
	err := run(t.Context(), "", "sh", "-c", "echo what is wrong >&2; exit 3")
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3: what is wrong") {
		t.Errorf("%v", err)
	}
	if !isFile("/etc/passwd") || isFile("/etc") || isFile("/zt-nothing") {
		t.Error("what is a file")
	}
}

// login.defs(5) has words and numbers, which may be octal.
func TestValuesOfLoginDefs(t *testing.T) {
	if mask := word("UMASK"); mask == "022" && number("UMASK", 1) != 18 {
		t.Errorf("the UMASK %s is %d", mask, number("UMASK", 1))
	}
	if n := number("ZT_NOTHING", 17); n != 17 {
		t.Errorf("a number that is not there is %d", n)
	}
	if s := word("ZT_NOTHING"); s != "" {
		t.Errorf("a word that is not there is %q", s)
	}
}
