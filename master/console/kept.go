package console

import (
	"maps"
	"sync"
	"time"
)

const (
	keptTime = 10 * time.Second // "3 s ago" is part of pages

	// A page has less than 100 KB. All texts together take at most 13 MB.
	maxKept     = 100
	maxKeptText = 128 << 10 // bytes; a longer text is made for each visit
	maxKeptAt   = 1 << 10   // bytes of an address
)

// A keptKey names parts of a page as an audience sees them. Versions of parts grow, so that their sum is new after each
// change.
type keptKey struct {
	address, audience string
	version           uint64
}

// kept has the text of parts, so that many browsers that ask for one version make it once.
type kept struct {
	mu    sync.Mutex // guards what follows
	texts map[keptKey]*keptText
}

// keptText is a text that is made at most once at a time.
type keptText struct {
	since time.Time
	mu    sync.Mutex // guards text
	text  []byte     // nil: it is not made yet
}

// at returns the place of a text.
func (k *kept) at(key keptKey, now time.Time) *keptText {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.texts[key]
	if t != nil && now.Sub(t.since) < keptTime {
		return t
	}
	maps.DeleteFunc(k.texts, func(_ keptKey, t *keptText) bool { return now.Sub(t.since) >= keptTime })
	if k.texts == nil || len(k.texts) >= maxKept {
		k.texts = map[keptKey]*keptText{}
	}
	t = &keptText{since: now}
	k.texts[key] = t
	return t
}

// keep returns the place of the parts that a visit asks for; nil: they are made for this visit alone. They are kept
// while a stream is open, because versions are new then.
func (c *Console) keep(v *visit, r route) *keptText {
	versions, follows := c.live.Now()
	parts := v.parts()
	address := v.r.URL.RequestURI()
	if !r.shared || len(parts) == 0 || !follows || v.query("format") != "" || len(address) > maxKeptAt {
		return nil
	}
	key := keptKey{address: address, audience: v.audience()}
	for _, name := range parts {
		key.version += versions.Of(name)
	}
	return c.kept.at(key, time.Now())
}

// showKept sends kept parts, and makes them if this is the first visit that asks for them.
func (c *Console) showKept(v *visit, r route, place *keptText) {
	text := place.make(func() []byte {
		began := time.Now()
		s, err := r.show(v)
		if err != nil {
			c.fail(v, r, err)
			return nil
		}
		defer func() { c.metrics.rendered(r.name, time.Since(began)) }()
		return c.render(v, r, s)
	})
	if text != nil {
		c.send(v, text, 0)
	}
}

// make returns the text, which it makes if there is none. A text that could not be made is nil and is not kept, and
// neither is one that is too long.
func (t *keptText) make(text func() []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text != nil {
		return t.text
	}
	made := text()
	if len(made) <= maxKeptText {
		t.text = made
	}
	return made
}
