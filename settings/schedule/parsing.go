// File parsing.go parses schedule entries: the map under the key `schedule` of a file of the config repo, of peel.yaml
// or of a settings document.
//
// [ParseSet] reads such a map, strictly and with positions. Where several files make one map, [CheckFields] checks each
// file, [ParseEntries] the merged entries and [Check] the entries against each other. A peel calls [Reparse], which
// parses only changed entries, and then [KeepInvalid]. Errors are [strictyaml.Errors] with file, line and column.
//
// Calendars are sets of days that zester.yaml names. [Calendars.Expand] replaces their names by their days before
// settings are sent to a peel. So a peel needs no calendars, and a changed calendar changes the settings.
//
// The fields of an entry are listed once, in the variable fields; [LayerSchema] derives the JSON schema for editors
// from the same list.

package schedule
