//go:build linux

package host

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// A Unit is a unit of systemd. The words of its states are those of systemctl show.
type Unit struct {
	Name        string   `json:"name"`                   // with its type, such as nginx.service
	Load        string   `json:"load"`                   // loaded, not-found, masked, …
	Active      string   `json:"active"`                 // active, inactive, failed, activating, …
	Sub         string   `json:"sub"`                    // running, exited, dead, …
	Enabled     string   `json:"enabled"`                // enabled, disabled, static, …; empty: there is no file
	TriggeredBy []string `json:"triggered_by,omitempty"` // the timers, sockets and paths that start it
	Fragment    string   `json:"-"`                      // the path of its file
	DropIns     []string `json:"-"`                      // the paths of the files that change it
	NeedsReload bool     `json:"-"`                      // a file of it changed since systemd read it
	CanReload   bool     `json:"-"`
	Stamp       string   `json:"-"` // a new one after each start, stop, restart and reload
	Ends        bool     `json:"-"` // it is of type oneshot and does not remain: it is never up after its work
	HasEnded    bool     `json:"-"` // it was started since the boot and ended well
}

// Exists reports whether systemd has a file or another definition of the unit.
func (u Unit) Exists() bool { return u.Load != "not-found" }

// IsRunning reports whether the unit is up.
func (u Unit) IsRunning() bool { return u.Active == "active" || u.Active == "reloading" }

// unitDirectories are where systemd looks for units, the most important first.
var unitDirectories = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
	"/lib/systemd/system",
}

// SetUnit plans a unit.
func (w *World) SetUnit(u Unit) { w.units[u.Name] = u }

// Unit returns a unit of the host as planned steps leave it.
func (w *World) Unit(u Unit) Unit {
	if p, ok := w.units[u.Name]; ok {
		u = p
	} else if len(w.files) > 0 {
		w.planUnitFile(&u)
	}
	u.NeedsReload = u.NeedsReload && !w.reread || w.isUnread(&u)
	return u
}

// RemovedWith returns the package that brought a unit and that planned steps remove, empty if there is none.
func (w *World) RemovedWith(u Unit) string {
	for _, p := range []string{u.Fragment, strings.TrimPrefix(u.Fragment, "/usr")} {
		name := w.removed[p]
		if version, planned := w.packages[name]; planned && version == "" {
			return name
		}
	}
	return ""
}

// planUnitFile makes a unit that the host does not have of a planned file.
func (w *World) planUnitFile(u *Unit) {
	if u.Exists() {
		return
	}
	for _, dir := range unitDirectories {
		for _, name := range u.fileNames() {
			file := path.Join(dir, name)
			content, err := w.Read(file, 1<<20)
			if err != nil {
				continue // there is none, or its content is not known
			}
			u.Load = "loaded"
			u.Active = "inactive"
			u.Sub = "dead"
			u.Fragment = file
			u.Enabled = "static"
			if strings.Contains("\n"+string(content), "\n[Install]") {
				u.Enabled = "disabled"
			}
			return
		}
	}
}

// fileNames returns the names that the file of a unit can have: its own, and the name of its template.
func (u *Unit) fileNames() []string {
	names := []string{u.Name}
	if base, _, ok := strings.Cut(u.Name, "@"); ok {
		names = append(names, base+"@"+path.Ext(u.Name))
	}
	return names
}

// UnitPaths returns the paths that steps make, write or remove and from which systemd reads units.
func UnitPaths(steps []Step) (paths []string) {
	for _, s := range steps {
		if !slices.Contains([]string{"create", "write", "remove"}, s.Do) || !path.IsAbs(s.What) {
			continue
		}
		if slices.ContainsFunc(unitDirectories, func(dir string) bool {
			return isBelow(s.What, dir) || isBelow(dir, s.What)
		}) {
			paths = append(paths, s.What)
		}
	}
	return paths
}

// isBelow reports whether a path is a directory or below it.
func isBelow(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// SetUnread notes paths of units that changed since systemd read its units.
func (w *World) SetUnread(paths ...string) {
	for _, p := range paths {
		w.unread[p] = true
	}
}

// Unread returns the paths of units that changed since systemd read its units, sorted.
func (w *World) Unread() []string { return slices.Sorted(maps.Keys(w.unread)) }

// UnitsRead notes that systemd read its units.
func (w *World) UnitsRead() { clear(w.unread) }

// PlanUnitsRead plans that systemd reads its units.
func (w *World) PlanUnitsRead() {
	w.UnitsRead()
	w.reread = true
}

// isUnread reports whether a path from which systemd reads a unit changed since it read its units.
func (w *World) isUnread(u *Unit) bool {
	names := u.fileNames()
	// drop-ins of all units of the type
	parts := append(slices.Clone(names), strings.TrimPrefix(path.Ext(u.Name), ".")+".d")
	for _, name := range names {
		parts = append(parts, name+".d")
		base := strings.TrimSuffix(name, path.Ext(name))
		for i := range base {
			if base[i] == '-' { // drop-ins of all units whose names begin so
				parts = append(parts, base[:i+1]+path.Ext(name)+".d")
			}
		}
	}
	for changed := range w.unread {
		for _, dir := range unitDirectories {
			below, isIn := strings.CutPrefix(changed, dir+"/")
			part, _, _ := strings.Cut(below, "/")
			if isBelow(dir, changed) || isIn && slices.Contains(parts, part) {
				return true
			}
		}
	}
	return w.unread[u.Fragment] || slices.ContainsFunc(u.DropIns, func(d string) bool { return w.unread[d] })
}
