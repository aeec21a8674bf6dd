package coverage

import (
	"path"
	"sync"
	"time"
)

// maxZones bounds the zones that are remembered. Peels name them, and the world has some 600.
const maxZones = 1000

// zones are the zones that peels have named. Their methods may be called from several goroutines.
type zones struct {
	mu     sync.Mutex
	byName map[string]*time.Location // nil: this host does not know it
}

// location returns a zone that a peel named; nil if this host does not know it.
func (z *zones) location(name string) *time.Location {
	if name == "" || name == "Local" || path.Clean(name) != name {
		return nil // it says nothing, or is another spelling of a zone
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if l, ok := z.byName[name]; ok {
		return l
	}
	if len(z.byName) == maxZones {
		clear(z.byName)
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		l = nil
	}
	z.byName[name] = l
	return l
}
