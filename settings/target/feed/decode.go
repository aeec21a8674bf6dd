package feed

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Limits of one peel's facts.
const (
	maxSize   = 256 << 10 // bytes of the message
	maxValues = 5_000     // scalars, maps and lists together
	maxDepth  = 16
	maxKey    = 256 // bytes
)

// decode reads facts and holds them to the limits.
func decode(msg *nats.Msg) (wire.Facts, error) {
	if len(msg.Data) > maxSize {
		return wire.Facts{}, fmt.Errorf("cannot accept %s: %d bytes of facts, the limit is %d", msg.Subject, len(msg.Data), maxSize)
	}
	facts, err := wire.DecodeFacts(msg)
	if err != nil {
		return wire.Facts{}, err
	}
	values := maxValues
	if err := measure(facts.Facts, maxDepth, &values); err != nil {
		return wire.Facts{}, fmt.Errorf("cannot accept %s: %w", msg.Subject, err)
	}
	return facts, nil
}

// measure counts values down and fails where they or depth run out.
func measure(v any, depth int, values *int) error {
	if depth < 0 {
		return fmt.Errorf("facts are nested deeper than %d", maxDepth)
	}
	if *values--; *values < 0 {
		return fmt.Errorf("more than %d facts", maxValues)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, c := range v {
			if len(k) > maxKey {
				return fmt.Errorf("fact %.32q… has a name of %d bytes, the limit is %d", k, len(k), maxKey)
			}
			if err := measure(c, depth-1, values); err != nil {
				return err
			}
		}
	case []any:
		for _, c := range v {
			if err := measure(c, depth-1, values); err != nil {
				return err
			}
		}
	}
	return nil
}
