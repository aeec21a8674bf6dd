// Command attacker tries to reach subjects that its credential does not grant, by way of replies. It uses the NATS client
// alone. It reads a plan from standard input and writes the subjects that it reached to standard output, both as JSON.
//
// For each aim it sends every request that it may send with the aim as the reply, so that whoever receives one of them,
// itself included, is asked to answer there. Then it publishes to the aim, and to each reply of a message that it received.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

type plan struct {
	URL, Creds, CA string
	Listen         []string // subjects to subscribe to
	Requests       []string // subjects to publish to, with a reply
	Aims           []string // subjects that must stay closed
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var p plan
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		return err
	}
	a := attacker{}
	opts := []nats.Option{nats.Timeout(time.Minute)}
	if p.Creds != "" {
		opts = append(opts, nats.UserCredentials(p.Creds))
	}
	opts = append(opts, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // refusals are expected, see allowed
	if p.CA != "" {
		opts = append(opts, nats.RootCAs(p.CA))
	}
	nc, err := nats.Connect(p.URL, opts...)
	if err != nil {
		return err
	}
	defer nc.Close()
	a.nc = nc
	for _, subject := range p.Listen {
		if _, err := nc.Subscribe(subject, a.onMessage); err != nil {
			return err
		}
	}
	open := []string{}
	for _, aim := range p.Aims {
		for _, request := range p.Requests {
			for _, body := range []string{"", `{"seq":1}`, `{"batch":5,"seq":1}`} {
				if err := nc.PublishRequest(request, aim, []byte(body)); err != nil {
					return err
				}
			}
		}
		if err := nc.FlushTimeout(time.Minute); err != nil {
			return err
		}
		for _, subject := range append(a.takeReplies(), aim) {
			allowed, err := a.allowed(subject)
			if err != nil {
				return err
			}
			if allowed {
				open = append(open, subject)
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(open)
}

type attacker struct {
	nc *nats.Conn

	mu      sync.Mutex
	replies []string // of messages received since the last aim
}

func (a *attacker) onMessage(m *nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.Reply != "" {
		a.replies = append(a.replies, m.Reply)
	}
}

// takeReplies waits until the messages that the server has sent are handled.
func (a *attacker) takeReplies() []string {
	a.barrier()
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.replies
	a.replies = nil
	return taken
}

// barrier returns when the handlers of the connection have run for everything received so far.
func (a *attacker) barrier() {
	done := make(chan struct{})
	if a.nc.Barrier(func() { close(done) }) == nil {
		<-done
	}
}

// allowed reports whether the server takes a message on the subject. A refusal is on the connection before the answer to
// the flush.
func (a *attacker) allowed(subject string) (bool, error) {
	before := a.nc.LastError()
	if err := a.nc.Publish(subject, []byte("forged")); err != nil {
		return false, err
	}
	if err := a.nc.FlushTimeout(time.Minute); err != nil {
		return false, err
	}
	return a.nc.LastError() == before, nil
}
