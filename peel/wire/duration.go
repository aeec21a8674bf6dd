package wire

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A TextDuration is a duration that is encoded in JSON as text, such as "1m30s". See [strictyaml.FormatDuration].
type TextDuration time.Duration

// MarshalText is part of [encoding.TextMarshaler].
func (d TextDuration) MarshalText() ([]byte, error) {
	return []byte(strictyaml.FormatDuration(time.Duration(d))), nil
}

// UnmarshalText is part of [encoding.TextUnmarshaler].
func (d *TextDuration) UnmarshalText(text []byte) error {
	parsed, err := strictyaml.ParseDuration(string(text))
	*d = TextDuration(parsed)
	return err
}

// Unescaped encodes a value as JSON for a MarshalJSON method. It does not escape HTML; the caller's encoder does that
// if it is set to.
func Unescaped(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// MarshalJSON encodes the duration as text. In MessagePack, in which returns are sent and stored, it stays a number.
func (r Return) MarshalJSON() ([]byte, error) {
	type plain Return
	return Unescaped(struct {
		plain
		Duration TextDuration `json:"duration"`
	}{plain(r), TextDuration(r.Duration)})
}

// UnmarshalJSON decodes what MarshalJSON encoded.
func (r *Return) UnmarshalJSON(data []byte) error {
	type plain Return
	v := struct {
		*plain
		Duration TextDuration `json:"duration"`
	}{plain: (*plain)(r)}
	err := json.Unmarshal(data, &v)
	r.Duration = time.Duration(v.Duration)
	return err
}
