package ledger

import "slices"

// Entry returns what a report says of the entry with a name; nil if it does not have it. names are the sorted names of
// the entries of the document with the report's digest; nil: it is not known, and only entries that are not in it are
// found.
func (r *Report) Entry(name string, names []string) *EntryReport {
	place, found := slices.BinarySearch(names, name)
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Name == name || e.Name == "" && found && e.Place == place {
			return e
		}
	}
	return nil
}
