package job

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TimeoutOf returns the default timeout of a function.
func TimeoutOf(function string) time.Duration {
	switch {
	case catalogue.RunsStates(function):
		return StatesTimeout
	case function == catalogue.Prompt:
		return PromptTimeout
	}
	return DefaultTimeout
}

// Limits of a [Spec].
const (
	MaxTargets      = 100_000
	MaxArgs         = 512 << 10 // bytes of the encoded arguments
	MaxStateID      = 4 << 10   // bytes
	MaxExpr         = 64 << 10  // bytes of the target expression
	MaxMetadata     = 32        // pairs
	MaxMetadataText = 1 << 10   // bytes of a key or value
	MinTimeout      = time.Second
	MaxTimeout      = 24 * time.Hour
	MaxWhenOnline   = 24 * time.Hour
	MaxBatched      = 72 * time.Hour // the longest that a job in batches may take

	// DefaultTimeout is the time to wait for returns if the spec has none; StatesTimeout is the same for functions that
	// run states.
	DefaultTimeout = 60 * time.Second
	StatesTimeout  = 10 * time.Minute
	PromptTimeout  = 3 * time.Minute // a peel gives a model 2 minutes unless its peel.yaml says otherwise

	// MaxAhead is how far ahead of a master's clock a job ID or a time from other hosts may be. IDs sort by time, so
	// one from the far future would head every list for ever.
	MaxAhead = 48 * time.Hour

	// MaxReturn bounds what a peel returns, in encoded bytes.
	MaxReturn = wire.MaxReturn
)

var functionName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}(\.[a-z0-9_]{1,64}){1,3}$`)

// A Spec is the request for a job: a function to run on peels.
type Spec struct {
	JID      wire.JID       `json:"jid"`
	Function string         `json:"function"`
	Args     map[string]any `json:"args,omitempty"`
	StateID  string         `json:"state_id,omitempty"` // the bare positional argument
	// Targets are sorted, each once.
	Targets []target.PeelID `json:"targets,omitempty"`
	// what selected the targets, as the client says; see [Job.Target]
	TargetExpr string            `json:"target_expr,omitempty"`
	Timeout    time.Duration     `json:"timeout"` // how long returns are waited for
	Metadata   map[string]string `json:"metadata,omitempty"`

	Batch *Batch `json:"batch,omitempty"` // nil: all targets at once
	// WhenOnline is for how long after the dispatch a target that is away gets its request when it comes back; its
	// Timeout is counted from then. Zero: targets that are away are missing.
	WhenOnline time.Duration `json:"when_online,omitempty"`
}

// A Batch bounds how many targets work at a time. Each has the job's Timeout from the moment its request was sent;
// one that stays silent or takes longer leaves its place to the next.
type Batch struct {
	Size        int `json:"size"`                   // targets that work at a time
	MaxFailures int `json:"max_failures,omitempty"` // so many targets without success end the sending; 0: no limit
}

// Normalize checks s against the limits, sorts its targets and fills in the timeout. The error names what is wrong
// with which value; now is the clock by which an ID from the future is recognised.
func (s *Spec) Normalize(now time.Time) error {
	if err := s.normalize(now); err != nil {
		return fmt.Errorf("cannot run job %q: %w", s.JID, err)
	}
	return nil
}

func (s *Spec) normalize(now time.Time) error {
	if _, err := wire.ParseJID(string(s.JID)); err != nil {
		return err
	}
	if at := s.JID.Time(); at.Sub(now) > MaxAhead {
		return fmt.Errorf("its ID is of %s, which is in the future", at.UTC().Format(time.RFC3339))
	}
	if !functionName.MatchString(s.Function) {
		return fmt.Errorf("%.100q is not the name of a function: it is module.function", s.Function)
	}
	if s.Timeout == 0 {
		s.Timeout = TimeoutOf(s.Function)
	}
	if s.Timeout < MinTimeout || s.Timeout > MaxTimeout {
		return fmt.Errorf("its timeout of %v is not between %v and %v", s.Timeout, MinTimeout, MaxTimeout)
	}
	if err := s.checkSizes(); err != nil {
		return err
	}
	if err := s.normalizeTargets(); err != nil {
		return err
	}
	return s.checkSending()
}

// checkSending bounds the time that a job may take which does not send all its requests at once.
func (s *Spec) checkSending() error {
	if s.WhenOnline < 0 || s.WhenOnline > MaxWhenOnline {
		return fmt.Errorf("it would wait %v for targets that are away, the limit is %v", s.WhenOnline, MaxWhenOnline)
	}
	if s.Batch == nil {
		return nil
	}
	if s.Batch.Size < 1 || s.Batch.MaxFailures < 0 {
		return fmt.Errorf("its batches of %d targets and its limit of %d failures are not numbers of targets",
			s.Batch.Size, s.Batch.MaxFailures)
	}
	batches := (len(s.Targets) + s.Batch.Size - 1) / s.Batch.Size
	if most := MaxBatched / s.Timeout; time.Duration(batches) > most {
		return fmt.Errorf("its %d batches could take %v each and the limit is %v altogether: "+
			"make the batches larger or the timeout shorter",
			batches, s.Timeout, MaxBatched)
	}
	return nil
}

func (s *Spec) checkSizes() error {
	args, err := canon.Marshal(s.Args)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		what       string
		size, most int
	}{
		{"arguments take", len(args), MaxArgs},
		{"ID argument takes", len(s.StateID), MaxStateID},
		{"target expression takes", len(s.TargetExpr), MaxExpr},
	} {
		if part.size > part.most {
			return fmt.Errorf("its %s %d bytes, the limit is %d", part.what, part.size, part.most)
		}
	}
	if len(s.Metadata) > MaxMetadata {
		return fmt.Errorf("it has %d pairs of metadata, the limit is %d", len(s.Metadata), MaxMetadata)
	}
	for k, v := range s.Metadata {
		if k == "" || len(k) > MaxMetadataText || len(v) > MaxMetadataText {
			return fmt.Errorf("its metadata %.100q takes more than %d bytes or has no name", k, MaxMetadataText)
		}
		if reservedMetadata[k] {
			return fmt.Errorf("its metadata %q is for masters to write", k)
		}
	}
	return nil
}

func (s *Spec) normalizeTargets() error {
	switch {
	case len(s.Targets) == 0:
		return fmt.Errorf("it has no targets")
	case len(s.Targets) > MaxTargets:
		return fmt.Errorf("it has %d targets, the limit is %d", len(s.Targets), MaxTargets)
	}
	for _, id := range s.Targets {
		if _, err := target.ParsePeelID(string(id)); err != nil {
			return err
		}
	}
	s.Targets = slices.Clone(s.Targets)
	slices.Sort(s.Targets)
	s.Targets = slices.Compact(s.Targets)
	wires := make(map[string]target.PeelID, len(s.Targets))
	for _, id := range s.Targets {
		if other, ok := wires[id.Wire()]; ok {
			return fmt.Errorf("its targets %s and %s are one peel on the bus", other, id)
		}
		wires[id.Wire()] = id
	}
	return nil
}

func sameBatch(a, b *Batch) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// ownMetadata returns the metadata without the keys that masters add.
func (s *Spec) ownMetadata() map[string]string {
	own := maps.Clone(s.Metadata)
	maps.DeleteFunc(own, func(key, _ string) bool { return reservedMetadata[key] })
	return own
}

// SameIntent reports whether two normalised specs are the same request, repeated, and not two jobs under one ID.
// Targets that an expression selected are not compared, because the fleet may have changed between the requests.
func (s *Spec) SameIntent(o *Spec) bool {
	if s.JID != o.JID || s.Function != o.Function || s.StateID != o.StateID || s.TargetExpr != o.TargetExpr ||
		s.Timeout != o.Timeout || s.WhenOnline != o.WhenOnline || !sameBatch(s.Batch, o.Batch) ||
		!maps.Equal(s.ownMetadata(), o.ownMetadata()) {
		return false
	}
	if s.TargetExpr == "" && !slices.Equal(s.Targets, o.Targets) {
		return false
	}
	a, errA := canon.Marshal(s.Args)
	b, errB := canon.Marshal(o.Args)
	return errA == nil && errB == nil && string(a) == string(b)
}
