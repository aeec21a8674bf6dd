//go:build linux

package host

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// A Unit is a unit of systemd. The words of its states are those of systemctl show.
type Unit struct {
	Name        string   `json:"name"`    // with its type, such as nginx.service
	Load        string   `json:"load"`    // loaded, not-found, masked, …
	Active      string   `json:"active"`  // active, inactive, failed, activating, …
	Sub         string   `json:"sub"`     // running, exited, dead, …
	Enabled     string   `json:"enabled"` // enabled, disabled, static, masked, …; empty: there is no file
	Fragment    string   `json:"-"`       // the path of its file
	DropIns     []string `json:"-"`       // the paths of the files that change it
	NeedsReload bool     `json:"-"`       // a file of it changed since systemd read it
	CanReload   bool     `json:"-"`
	Stamp       string   `json:"-"` // a new one after each start, stop, restart and reload
}

// Exists reports whether systemd has a file or another definition of the unit.
func (u Unit) Exists() bool { return u.Load != "not-found" }

// IsRunning reports whether the unit is up.
func (u Unit) IsRunning() bool { return u.Active == "active" || u.Active == "reloading" }

// unitDirectories are where systemd looks for units, the most important first.
var unitDirectories = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// SetUnit plans a unit.
func (w *World) SetUnit(u Unit) { w.units[u.Name] = u }

// Unit returns a unit of the host as planned steps leave it.
func (w *World) Unit(u Unit) Unit {
	if p, ok := w.units[u.Name]; ok {
		return p
	}
	if len(w.files) > 0 {
		w.planUnitFile(&u)
	}
	return u
}

// RemovedWith returns the package that brought a unit and that planned steps remove, empty if there is none.
func (w *World) RemovedWith(u Unit) string {
	for name, version := range w.packages {
		if version != "" || u.Fragment == "" {
			continue
		}
		lists, _ := filepath.Glob("/var/lib/dpkg/info/" + name + "*.list") // the pattern is valid: packages have plain names
		for _, list := range lists {
			data, _ := os.ReadFile(list)
			if strings.Contains(string(data), strings.TrimPrefix(u.Fragment, "/usr")+"\n") {
				return name
			}
		}
	}
	return ""
}

// planUnitFile changes a unit as systemd does when its files change.
func (w *World) planUnitFile(u *Unit) {
	names := []string{u.Name}
	if base, _, ok := strings.Cut(u.Name, "@"); ok {
		names = append(names, base+"@"+path.Ext(u.Name))
	}
	for _, dir := range unitDirectories {
		for _, name := range names {
			file := path.Join(dir, name)
			if !w.isRewritten(file) {
				continue
			}
			content, err := w.Read(file, 1<<20)
			switch {
			case err != nil: // it would be removed, or its content is not known
				u.NeedsReload = u.Exists()
			case u.Exists():
				u.NeedsReload = true
			default:
				u.Load, u.Active, u.Sub, u.Fragment, u.Enabled = "loaded", "inactive", "dead", file, "static"
				if strings.Contains("\n"+string(content), "\n[Install]") {
					u.Enabled = "disabled"
				}
			}
		}
	}
	if u.Exists() && u.Fragment != "" && !u.NeedsReload && u.Active != "inactive" {
		u.NeedsReload = w.dropInsChange(u, names)
	}
}

// dropInsChange reports whether planned steps change a file that changes the unit.
func (w *World) dropInsChange(u *Unit, names []string) bool {
	if slices.ContainsFunc(u.DropIns, w.isRewritten) {
		return true
	}
	for _, dir := range unitDirectories {
		for _, name := range names {
			list, _ := w.List(path.Join(dir, name+".d")) // a directory that cannot be read holds nothing for systemd
			for _, file := range list {
				if strings.HasSuffix(file, ".conf") && w.isRewritten(path.Join(dir, name+".d", file)) {
					return true
				}
			}
		}
	}
	return false
}

// isRewritten reports whether planned steps make, remove or write a file with another content.
func (w *World) isRewritten(name string) bool {
	place, err := w.place(name)
	if err != nil {
		return false
	}
	p, ok := w.overlaid(place)
	if !ok {
		return false
	}
	now := New()
	info, err := now.Stat(place)
	if err != nil || info.Kind != p.info.Kind || info.Kind != safefs.File {
		return err != nil || info.Kind != p.info.Kind || info.Target != p.info.Target
	}
	content, err := now.Read(place, 1<<20)
	return err != nil || p.unknown || !bytes.Equal(content, p.content)
}
