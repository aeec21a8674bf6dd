package wire

import (
	"github.com/vmihailenco/msgpack/v5"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

// The lists of a peel's reports are decoded up to [MaxReported] only.
type (
	outcomes []StateOutcome
	texts    []string
)

// DecodeMsgpack decodes at most [MaxReported].
func (l *outcomes) DecodeMsgpack(dec *msgpack.Decoder) error {
	return canon.DecodeList(dec, (*[]StateOutcome)(l), "states", MaxReported)
}

// DecodeMsgpack decodes at most [MaxReported].
func (l *texts) DecodeMsgpack(dec *msgpack.Decoder) error {
	return canon.DecodeList(dec, (*[]string)(l), "texts of a report", MaxReported)
}
