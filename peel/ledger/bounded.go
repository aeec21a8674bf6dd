package ledger

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// The lists of a report are decoded up to their bounds only: an element that takes one byte in a message may take 700 bytes of memory.
type (
	entryReports []EntryReport
	notes        []Note
	zoneChanges  []ZoneChange
)

// DecodeMsgpack decodes at most [MaxEntries].
func (l *entryReports) DecodeMsgpack(dec *msgpack.Decoder) error {
	return decodeList(dec, (*[]EntryReport)(l), "entries", MaxEntries)
}

// DecodeMsgpack decodes at most [MaxNotes].
func (l *notes) DecodeMsgpack(dec *msgpack.Decoder) error {
	return decodeList(dec, (*[]Note)(l), "notes", MaxNotes)
}

// DecodeMsgpack decodes at most 16 changes.
func (l *zoneChanges) DecodeMsgpack(dec *msgpack.Decoder) error {
	return decodeList(dec, (*[]ZoneChange)(l), "changes of a zone", maxChanges)
}

// DecodeMsgpack decodes at most [MaxMarks].
func (m *Marks) DecodeMsgpack(dec *msgpack.Decoder) error {
	return decodeList(dec, (*[]Mark)(m), "marks", MaxMarks)
}

// decodeList decodes a list that has at most limit elements.
func decodeList[T any](dec *msgpack.Decoder, list *[]T, what string, limit int) error {
	n, err := dec.DecodeArrayLen()
	if err != nil || n <= 0 {
		return err
	}
	if n > limit {
		return fmt.Errorf("%d %s, the limit is %d", n, what, limit)
	}
	*list = make([]T, n)
	for i := range *list {
		if err := dec.Decode(&(*list)[i]); err != nil {
			return err
		}
	}
	return nil
}
