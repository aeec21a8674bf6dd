package ledger

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// A Run is a number of fires of one entry and one era that differ in their nominal times only.
type Run struct {
	Fire               // the first one
	Step time.Duration // between two nominal times, in whole seconds; 0 if Count is 1
	// Hour: the list has only the number of these fires. Nominal is the beginning of the hour of UTC with their nominal
	// times, and the last one is Step after it.
	Hour  bool
	Count int
}

// Last returns the nominal time of the last fire.
func (r Run) Last() time.Time {
	if r.Hour {
		return r.Nominal.Add(r.Step)
	}
	return r.Nominal.Add(time.Duration(r.Count-1) * r.Step)
}

// Bounds of a list.
const (
	MaxFires = 250_000 // of all entries of a peel
	MaxMarks = 64      // of a peel, and of an entry

	maxOfHour = 10 * hourSeconds // fires of one code in an hour

	firstSecond = -1 << 35 // Unix times of fires are between these two
	lastSecond  = 1 << 35
)

// Sorted returns fires in the order of [AppendRuns]. Of those with the same era, class and nominal time it has the
// last.
func Sorted(fires []Fire) []Fire {
	list := slices.Clone(fires)
	slices.Reverse(list)
	sorting.Stable(list, compareFires)
	return slices.CompactFunc(list, func(a, b Fire) bool { return compareFires(a, b) == 0 })
}

func compareFires(a, b Fire) int {
	return cmp.Or(cmp.Compare(a.Era, b.Era), a.Nominal.Compare(b.Nominal), cmp.Compare(a.Class, b.Class))
}

// Group joins neighbours that have equal steps and are equal in everything but the nominal time: three or more become
// one run.
func Group(fires []Fire) (list []Run) {
	for i := 0; i < len(fires); {
		n := alike(fires[i:])
		r := Run{Fire: fires[i], Count: n}
		if n > 1 {
			r.Step = fires[i+1].Nominal.Sub(fires[i].Nominal)
		}
		list = append(list, r)
		i += n
	}
	return list
}

// alike returns how many of the first fires are one run.
func alike(fires []Fire) int {
	if len(fires) < 3 {
		return 1
	}
	step := fires[1].Nominal.Sub(fires[0].Nominal)
	n := 1
	for n < len(fires) {
		next := fires[0]
		next.Nominal = fires[n-1].Nominal.Add(step)
		if fires[n] != next {
			break
		}
		n++
	}
	if n < 3 {
		return 1
	}
	return n
}

// AppendRuns appends the code of runs. They are ordered by era, and within an era by nominal time.
//
// The code of a run is a sequence of varints: the seconds since the last nominal time before it, a code with class,
// outcome, flags and reason, and if its bit 0 is set the step in seconds and the count. The nominal times of the first
// run are counted from the Unix epoch. A code that says era stands before the runs of another era: the number before it
// is added to the era, which is 0 at the beginning.
func AppendRuns(b []byte, runs []Run) []byte {
	var era uint32
	var at int64
	for _, r := range runs {
		if r.Era != era {
			b = binary.AppendVarint(b, int64(r.Era)-int64(era))
			b = binary.AppendUvarint(b, eraMark)
			era = r.Era
		}
		b = binary.AppendVarint(b, r.Nominal.Unix()-at)
		c := r.code()
		if r.Hour {
			c |= hourBit
		}
		if r.Count == 1 && !r.Hour {
			b = binary.AppendUvarint(b, uint64(c))
		} else {
			b = binary.AppendUvarint(b, uint64(c)|1)
			b = binary.AppendUvarint(b, uint64(r.Step/time.Second))
			b = binary.AppendUvarint(b, uint64(r.Count))
		}
		at = r.reached()
	}
	return b
}

// reached returns the time from which the next run is counted, in seconds since the Unix epoch: fires of an hour may
// follow its number.
func (r Run) reached() int64 {
	if r.Hour {
		return r.Nominal.Unix()
	}
	return r.Last().Unix()
}

// ParseRuns decodes runs from any sender. What their code means in a newer version comes back as other. Runs that are
// not in order, and more than 250,000 of them, are refused.
func ParseRuns(b []byte) ([]Run, error) {
	p := parser{rest: b}
	var list []Run
	var era, at int64
	for len(p.rest) > 0 {
		gap, c := p.signed(), code(p.unsigned())
		if p.bad {
			return nil, errCut
		}
		if c == eraMark {
			if era += gap; era < 0 || era > 1<<32-1 || gap <= 0 {
				return nil, fmt.Errorf("era %d is not in order", era)
			}
			continue
		}
		r, err := p.run(at+gap, c)
		if err != nil {
			return nil, err
		}
		r.Era = uint32(era)
		if n := len(list); n >= MaxFires || n > 0 && list[n-1].Era == r.Era && gap < 0 {
			return nil, fmt.Errorf("run %d is not in order, or one too many", n)
		}
		at = r.reached()
		list = append(list, r)
	}
	return list, nil
}

// A parser reads varints.
type parser struct {
	rest []byte
	bad  bool
}

var errCut = errors.New("a number is not complete, or too large")

func (p *parser) signed() int64 {
	v, n := binary.Varint(p.rest)
	if p.advance(n); v < firstSecond*2 || v > lastSecond*2 {
		p.bad = true
		return 0
	}
	return v
}

func (p *parser) unsigned() int64 {
	v, n := binary.Uvarint(p.rest)
	if p.advance(n); v > 1<<32-1 {
		p.bad = true
		return 0
	}
	return int64(v)
}

func (p *parser) advance(n int) {
	if n <= 0 {
		p.bad, p.rest = true, nil
		return
	}
	p.rest = p.rest[n:]
}

func (p *parser) run(at int64, c code) (Run, error) {
	step, count := int64(0), int64(1)
	if c&1 != 0 {
		step, count = p.unsigned(), p.unsigned()
	}
	hour := c&hourBit != 0
	switch last := at + step*(min(count, MaxFires)-1); {
	case p.bad:
		return Run{}, errCut
	case at < firstSecond || last > lastSecond:
		return Run{}, fmt.Errorf("a nominal time is %d, %d s times %d", at, step, count)
	case hour && (step >= hourSeconds || count < 1 || count > maxOfHour || c&1 == 0):
		return Run{}, fmt.Errorf("%d fires of an hour, the last after %d s", count, step)
	case !hour && (count < 1 || count > MaxFires || step == 0 && count > 1):
		return Run{}, fmt.Errorf("%d fires, %d s apart, the limit is %d", count, step, MaxFires)
	case count == 1 && !hour:
		step = 0
	}
	return Run{Fire: (c &^ 1).fire(0, at), Step: time.Duration(step) * time.Second, Hour: hour, Count: int(count)}, nil
}
