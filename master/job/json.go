package job

import (
	"encoding/json"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// MarshalJSON writes durations as text, in the form that requests have. In MessagePack, the form of stored records and
// of messages on the bus, they are numbers.
func (j Job) MarshalJSON() ([]byte, error) {
	type plain Job
	return wire.Unescaped(struct {
		plain
		Timeout    wire.TextDuration `json:"timeout"`
		WhenOnline wire.TextDuration `json:"when_online,omitzero"`
	}{plain(j), wire.TextDuration(j.Timeout), wire.TextDuration(j.WhenOnline)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (j *Job) UnmarshalJSON(data []byte) error {
	type plain Job
	v := struct {
		*plain
		Timeout    wire.TextDuration `json:"timeout"`
		WhenOnline wire.TextDuration `json:"when_online"`
	}{plain: (*plain)(j)}
	err := json.Unmarshal(data, &v)
	j.Timeout, j.WhenOnline = time.Duration(v.Timeout), time.Duration(v.WhenOnline)
	return err
}
