package wire

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

// The lists of a peel's reports are decoded up to [MaxReported] only, and the numbers up to maxCounts.
type (
	outcomes []StateOutcome
	texts    []string
	counts   map[string]int
)

const maxCounts = 10

// DecodeMsgpack decodes at most [MaxReported].
func (l *outcomes) DecodeMsgpack(dec *msgpack.Decoder) error {
	return canon.DecodeList(dec, (*[]StateOutcome)(l), "states", MaxReported)
}

// DecodeMsgpack decodes at most [MaxReported].
func (l *texts) DecodeMsgpack(dec *msgpack.Decoder) error {
	return canon.DecodeList(dec, (*[]string)(l), "texts of a report", MaxReported)
}

// DecodeMsgpack decodes at most maxCounts.
func (c *counts) DecodeMsgpack(dec *msgpack.Decoder) error {
	n, err := dec.DecodeMapLen()
	if err != nil || n <= 0 {
		return err
	}
	if n > maxCounts {
		return fmt.Errorf("%d results, the limit is %d", n, maxCounts)
	}
	*c = make(counts, n)
	for range n {
		name, err := dec.DecodeString()
		if err != nil {
			return err
		}
		if (*c)[name], err = dec.DecodeInt(); err != nil {
			return err
		}
	}
	return nil
}
