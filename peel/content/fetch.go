package content

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/content"
)

const (
	atOnce     = 4                // contents that are fetched at the same time
	getTimeout = 10 * time.Second // for one chunk, over a slow link
	firstPause = 250 * time.Millisecond
	lastPause  = time.Minute
	tidyEvery  = 24 * time.Hour
)

// Run fetches missing contents until ctx ends. It tries again after a failure, with growing pauses, and when the
// connection comes back. It never waits for other parts of the peel.
func (c *Cache) Run(ctx context.Context, nc *nats.Conn) {
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	tidied := time.NewTicker(tidyEvery)
	defer tidied.Stop()
	c.tidy()
	for pause := time.Duration(0); ; {
		var next <-chan time.Time
		if files, from := c.lacking(); len(files) > 0 {
			next = time.After(max(time.Until(from), rand.N(pause+1)))
		}
		select {
		case <-ctx.Done():
			return
		case _, open := <-connected:
			if pause = min(pause, firstPause); !open {
				connected = nil // the connection is closed for good
			}
		case <-c.due:
		case <-tidied.C:
			c.tidy()
		case <-next:
			if c.fetchAll(ctx, nc) {
				pause = 0
			} else {
				pause = min(max(2*pause, firstPause), lastPause)
			}
		}
	}
}

// fetchAll fetches what is missing and reports whether that succeeded.
func (c *Cache) fetchAll(ctx context.Context, nc *nats.Conn) bool {
	before := c.Missing()
	files, _ := c.lacking()
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, f := range files {
		g.Go(func() error {
			err := fetch(ctx, nc, c.dir, f)
			if err == nil {
				c.onStored(f)
			}
			return err
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		return true
	}
	c.mu.Lock()
	c.failed = err
	c.mu.Unlock()
	if err != nil {
		c.log.Warn("fetch", "contents of files not fetched, they are tried again", "missing", c.Missing(), "err", err)
	}
	if c.Missing() != before {
		c.changed()
	}
	return err == nil
}

// onStored records that a content is on the disk.
func (c *Cache) onStored(f content.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored[f.Blob] = f.SealedSize()
	close(c.arrived)
	c.arrived = make(chan struct{})
}

// fetch gets a sealed content from the bus and stores it.
func fetch(ctx context.Context, nc *nats.Conn, dir string, f content.File) error {
	keys := f.Chunks()
	err := store(dir, f, func() ([]byte, error) {
		if len(keys) == 0 {
			return nil, nil
		}
		chunk, err := get(ctx, nc, keys[0])
		keys = keys[1:]
		return chunk, err
	})
	if err != nil {
		return fmt.Errorf("cannot fetch the content %s: %w", f.Blob[:12], err)
	}
	return nil
}

// get reads one chunk from the stream. The server sends the same reply to any subject that a requester names, so the
// reply must name the key.
func get(ctx context.Context, nc *nats.Conn, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, wire.ContentGet(key), nil)
	if err != nil {
		return nil, fmt.Errorf("the bus has not sent it: %w", err)
	}
	switch status := msg.Header.Get("Status"); {
	case status == "404", msg.Header.Get("KV-Operation") != "", msg.Header.Get("Nats-Marker-Reason") != "":
		return nil, errors.New("the bus does not have it")
	case status != "":
		return nil, fmt.Errorf("the server replied %s %s", status, strconv.Quote(msg.Header.Get("Description")))
	case msg.Header.Get("Nats-Subject") != "$KV."+content.Bucket+"."+key || len(msg.Data) == 0:
		return nil, fmt.Errorf("the reply has %d bytes of %q", len(msg.Data), msg.Header.Get("Nats-Subject"))
	}
	return msg.Data, nil
}

// tidy removes contents that are no longer used.
func (c *Cache) tidy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := func(blob string) bool { _, ok := c.wanted[blob]; return ok }
	removed, err := tidy(c.dir, wanted, time.Now())
	for _, blob := range removed {
		delete(c.stored, blob)
	}
	if err != nil {
		c.log.Warn("tidy", "unused contents of files not removed", "err", err)
	}
}
