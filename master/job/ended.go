package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings/puback"
)

// ErrTooLarge: the record has more than [MaxReturn] bytes.
var ErrTooLarge = errors.New("the record is too large")

// An Ended is a job that has ended before it is recorded, as runs of schedules have, with what its one target returned.
type Ended struct {
	Job    *Job
	Return []byte // in the form that [ReadReturn] reads
}

// CreateEnded stores the records and returns of jobs, all at once, and calls done for each of them from this goroutine.
// Records and returns that exist stay, so the call can be repeated. A return is stored only after its record. done gets
// nil when both are stored; [ErrExists] if a job of another peel or a dispatched job has the ID; [ErrTooLarge]; or an
// error that leaves the outcome unknown. ctx needs a deadline.
func (s *Store) CreateEnded(ctx context.Context, all []Ended, done func(i int, err error)) {
	c := creation{store: s, all: all, nc: s.js.Conn(), answers: make(chan *nats.Msg, 2*len(all)), open: len(all)}
	c.done = func(i int, err error) {
		if err != nil {
			err = fmt.Errorf("cannot store job %s and its return: %w", all[i].Job.JID, err)
		}
		c.stage[i] = settled
		c.open--
		done(i, err)
	}
	c.inbox, c.stage = c.nc.NewInbox()+".", make([]stage, len(all))
	answers, err := c.nc.ChanSubscribe(c.inbox+"*", c.answers)
	if err != nil {
		c.abandon(err)
		return
	}
	defer func() { _ = answers.Unsubscribe() }()
	live, err := s.LiveIDs(ctx)
	if err != nil {
		c.abandon(err)
		return
	}
	for i, e := range all {
		if live[e.Job.JID] {
			if err := s.isEnded(ctx, e.Job); err != nil && !errors.Is(err, ErrNotFound) {
				c.done(i, err)
				continue
			}
		}
		c.sendRecord(i)
	}
	for c.open > 0 {
		select {
		case answer := <-c.answers:
			c.answered(ctx, answer)
		case <-ctx.Done():
			c.abandon(ctx.Err())
		}
	}
}

// A stage says which message of a job waits for its acknowledgement.
type stage byte

const (
	recording stage = iota
	returning
	settled
)

// A creation is one call of CreateEnded.
type creation struct {
	store   *Store
	nc      *nats.Conn
	all     []Ended
	stage   []stage // of each
	open    int     // are not settled
	inbox   string  // each is answered on its number below
	answers chan *nats.Msg
	done    func(i int, err error)
}

// abandon ends the wait.
func (c *creation) abandon(err error) {
	for i, stage := range c.stage {
		if stage != settled {
			c.done(i, err)
		}
	}
}

func (c *creation) sendRecord(i int) {
	data, err := encode(c.all[i].Job)
	if err == nil && len(data) > MaxReturn {
		err = fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(data), MaxReturn)
	}
	if err != nil {
		c.done(i, err)
		return
	}
	c.send(i, recording, create(recordPrefix+string(c.all[i].Job.JID), data))
}

func (c *creation) sendReturn(i int) {
	j := c.all[i].Job
	c.send(i, returning, ReturnMessage(j.JID, j.Targets[0], c.all[i].Return))
}

func (c *creation) send(i int, to stage, m *nats.Msg) {
	m.Reply = c.inbox + strconv.Itoa(i)
	c.stage[i] = to
	if err := c.nc.PublishMsg(m); err != nil {
		c.done(i, err)
	}
}

// answered takes what a stream says to what it was sent.
func (c *creation) answered(ctx context.Context, m *nats.Msg) {
	i, err := strconv.Atoi(strings.TrimPrefix(m.Subject, c.inbox))
	if err != nil || i < 0 || i >= len(c.all) || c.stage[i] == settled {
		return
	}
	switch exists, err := readAnswer(m); {
	case err != nil:
		c.done(i, err)
	case c.stage[i] == returning:
		c.done(i, nil)
	case exists:
		if err := c.store.isEnded(ctx, c.all[i].Job); err != nil {
			c.done(i, err)
			return
		}
		c.sendReturn(i)
	default:
		c.sendReturn(i)
	}
}

// isEnded returns nil if the record under the ID of j belongs to a scheduled run of the same peel.
func (s *Store) isEnded(ctx context.Context, j *Job) error {
	there, err := s.get(ctx, j.JID)
	if err == nil && (!there.Scheduled() || !slices.Equal(there.Targets, j.Targets)) {
		err = fmt.Errorf("%w: it is not a scheduled job of %s", ErrExists, j.Targets[0])
	}
	return err
}

// create returns the message that stores a value unless the key has one.
func create(subject string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}}}
}

// readAnswer reads what a stream says to a message of create. Its error says that the value may not be there.
func readAnswer(m *nats.Msg) (exists bool, err error) {
	if status := m.Header.Get("Status"); status != "" {
		return false, fmt.Errorf("no stream takes it (%s)", status)
	}
	switch answer, err := puback.Read(m.Data); {
	case err != nil:
		return false, fmt.Errorf("the answer is not one of a stream: %w", err)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
		return true, nil
	case answer.Error != nil:
		return false, answer.Error
	case answer.Sequence == 0:
		return false, errors.New("the answer names no place in the stream")
	}
	return false, nil
}
