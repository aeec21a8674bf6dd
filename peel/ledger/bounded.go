package ledger

import (
	"github.com/vmihailenco/msgpack/v5"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

// The lists of a report are decoded up to their bounds only: an element that takes one byte in a message may take 700
// bytes of memory.
type (
	entryReports []EntryReport
	notes        []Note
	zoneChanges  []ZoneChange
)

// DecodeMsgpack decodes at most [MaxEntries].
func (l *entryReports) DecodeMsgpack(dec *msgpack.Decoder) error {
	return canon.DecodeList(dec, (*[]EntryReport)(l), "entries", MaxEntries)
}

// DecodeMsgpack decodes at most [MaxNotes].
func (l *notes) DecodeMsgpack(dec *msgpack.Decoder) error {
	return canon.DecodeList(dec, (*[]Note)(l), "notes", MaxNotes)
}

// DecodeMsgpack decodes at most 16 changes.
func (l *zoneChanges) DecodeMsgpack(dec *msgpack.Decoder) error {
	return canon.DecodeList(dec, (*[]ZoneChange)(l), "changes of a zone", maxChanges)
}

// DecodeMsgpack decodes at most [MaxMarks].
func (m *Marks) DecodeMsgpack(dec *msgpack.Decoder) error {
	return canon.DecodeList(dec, (*[]Mark)(m), "marks", MaxMarks)
}
