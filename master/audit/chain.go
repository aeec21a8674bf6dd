package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Line is an entry as the bus stores it: JSON on one line. [Entry.Seq] and [Entry.Prev] in it make the log a chain,
// which anybody can check with SHA-256 alone.
type Line struct {
	Seq  uint64 `json:"seq"`
	Text string `json:"text"`
}

// A Head is the place of an entry and the digest of its line. Who keeps it elsewhere can later prove that the entry and
// all before it are still those of then. The zero value stands before the first entry of a log.
type Head struct {
	Seq    uint64 `json:"seq"`
	Digest string `json:"digest"` // SHA-256 of the line in hex; empty if it is not known
}

// String returns SEQ:DIGEST.
func (h Head) String() string { return strconv.FormatUint(h.Seq, 10) + ":" + h.Digest }

// ParseHead reads what [Head.String] returns.
func ParseHead(text string) (Head, error) {
	place, digest, _ := strings.Cut(text, ":")
	seq, err := strconv.ParseUint(place, 10, 64)
	if sum, errSum := hex.DecodeString(digest); err != nil || seq == 0 || errSum != nil || len(sum) != sha256.Size {
		return Head{}, fmt.Errorf(
			"cannot read %.100q: want the number of an entry, a colon and its digest, "+
				"as zester audit verify prints them",
			text,
		)
	}
	return Head{seq, strings.ToLower(digest)}, nil
}

// HeadOf returns the head after a line.
func HeadOf(l Line) Head {
	sum := sha256.Sum256([]byte(l.Text))
	return Head{l.Seq, hex.EncodeToString(sum[:])}
}

// Check returns an error if a line does not follow h. If h has no digest, its entry is gone, and only the place is
// checked.
func (h Head) Check(l Line) error {
	var e struct {
		Seq  uint64 `json:"seq"`
		Prev string `json:"prev"`
	}
	switch err := json.Unmarshal([]byte(l.Text), &e); {
	case l.Seq != h.Seq+1:
		return fmt.Errorf("the entries %d to %d are missing", h.Seq+1, l.Seq-1)
	case err != nil:
		return fmt.Errorf("entry %d cannot be decoded", l.Seq)
	case e.Seq != l.Seq:
		return fmt.Errorf("entry %d says that it is entry %d", l.Seq, e.Seq)
	case (h.Digest != "" || h.Seq == 0) && e.Prev != h.Digest:
		return fmt.Errorf(
			"entry %d does not follow entry %d: one of them was not written by a master, or was replaced", l.Seq, h.Seq,
		)
	}
	return nil
}

// maxGaps is how many gaps a [Chain] names.
const maxGaps = 20

// A Chain is the result of a check of lines that follow each other. The zero value has seen none.
type Chain struct {
	First   uint64   `json:"first"` // the oldest entry, 0 if there is none
	Entries int      `json:"entries"`
	Head    Head     `json:"head"` // of the newest entry
	Gaps    []string `json:"gaps"`
	Total   int      `json:"gaps_total"`
}

// Add checks the next line. known is a head that somebody has kept, zero for none.
func (c *Chain) Add(line Line, known Head) {
	if c.Entries++; c.Entries == 1 {
		c.First, c.Head = line.Seq, Head{Seq: line.Seq - 1}
	}
	if err := c.Head.Check(line); err != nil {
		c.gap(err.Error())
	}
	if c.Head = HeadOf(line); c.Head.Seq == known.Seq && c.Head.Digest != known.Digest {
		c.gap(fmt.Sprintf("entry %d is another one than it was: its digest is %s", known.Seq, c.Head.Digest))
	}
}

// End checks, after all lines, that the known head was not beyond them.
func (c *Chain) End(known Head) {
	if known.Seq > c.Head.Seq {
		c.gap(fmt.Sprintf("entry %d is gone: the newest is entry %d", known.Seq, c.Head.Seq))
	}
}

func (c *Chain) gap(text string) {
	if c.Total++; len(c.Gaps) < maxGaps {
		c.Gaps = append(c.Gaps, text)
	}
}

// A Status says how far a master has followed the log, and what is wrong with it.
type Status struct {
	Head  Head   `json:"head"`            // after the newest entry that was checked
	Gaps  int    `json:"gaps"`            // entries that do not follow the one before them, since the master started
	First string `json:"first,omitempty"` // the first of these, in words
	Use   Use    `json:"break_glass,omitzero"`
}

// A Use is the newest use of the credential in the data directory of a master that [Entry.BreakGlass] marks, in the
// newest 1,000 entries or since the master started.
type Use struct {
	At     time.Time `json:"at"`
	Action string    `json:"action"`
	From   string    `json:"from,omitempty"` // address of the host
}

// String returns the use in words.
func (u Use) String() string {
	return fmt.Sprintf("the credential of a master's data directory was used at %s, for %s from %s",
		u.At.UTC().Format(time.RFC3339), u.Action, cmp.Or(u.From, "a host that is not known"))
}

// Text returns the line of an entry.
func (e *Entry) Text() (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return "", fmt.Errorf("cannot encode an entry of the audit log: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// Entry decodes a line. A line that cannot be decoded is an entry that says so.
func (l Line) Entry() Entry {
	var e Entry
	if err := json.Unmarshal([]byte(l.Text), &e); err != nil {
		e = Entry{Action: ActionUnreadable}.Ended(errors.New("the entry cannot be decoded"), false)
	}
	e.Seq = l.Seq
	return e
}
