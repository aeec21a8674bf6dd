package canon_test

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

func TestEqualValuesHaveEqualBytes(t *testing.T) {
	a, err := canon.Marshal(map[string]any{"b": 1, "a": map[string]any{"y": uint8(2), "x": int64(3)}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := canon.Marshal(map[string]any{"a": map[string]any{"x": 3, "y": 2}, "b": uint64(1)})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%x\n%x", a, b)
	}
}

func TestTypesSurvive(t *testing.T) {
	for _, v := range []any{
		nil, true, "", "é", 1.5, 1e300, int64(0), int64(3), int64(127), int64(128), int64(300), int64(-1), int64(-200),
		int64(1) << 40,
		[]any{},
		[]any{int64(1), nil},
		map[string]any{},
		map[string]any{"k": []any{"v", int64(-5)}},
		[]byte{0, 255},
	} {
		data, err := canon.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := canon.Unmarshal(data, &got); err != nil {
			t.Fatalf("%#v: %v", v, err)
		}
		if !reflect.DeepEqual(got, v) {
			t.Errorf("%#v came back as %#v", v, got)
		}
	}
}

type message struct {
	Name  string         `json:"name"`
	Args  map[string]any `json:"args,omitempty"`
	Data  any            `json:"data,omitempty"`
	Parts []message      `json:"parts,omitempty"`
	Raw   canon.Raw      `json:"raw,omitempty"`
	When  time.Time      `json:"when,omitzero"`
}

func TestStructFieldsAreNormalised(t *testing.T) {
	in := message{Name: "n", Args: map[string]any{"n": 7, "l": []int{300}}, Data: uint16(9), Parts: []message{{Data: int8(-3)}}, Raw: canon.Raw{0x2a}}
	data, err := canon.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out message
	if err := canon.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	want := message{Name: "n", Args: map[string]any{"n": int64(7), "l": []any{int64(300)}}, Data: int64(9), Parts: []message{{Data: int64(-3)}}, Raw: canon.Raw{0x2a}}
	if !reflect.DeepEqual(out, want) {
		t.Errorf("got  %#v\nwant %#v", out, want)
	}
}

func TestUnknownFieldsAreIgnoredAndMissingOnesZero(t *testing.T) {
	data, err := canon.Marshal(map[string]any{"name": "n", "from_the_future": []any{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	var out message
	if err := canon.Unmarshal(data, &out); err != nil || out.Name != "n" || out.Args != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestHostileBytesAreRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty":                 {},
		"depth bomb":            bytes.Repeat([]byte{0x91}, 1<<20),
		"array of 4 G":          {0xdd, 0xff, 0xff, 0xff, 0xff},
		"map of 4 G":            {0xdf, 0xff, 0xff, 0xff, 0xff},
		"string beyond the end": {0xdb, 0xff, 0xff, 0xff, 0xff, 'a'},
		"two values":            {0x01, 0x02},
		"no such type":          {0xc1},
		"JSON":                  []byte(`{"stream":"facts","seq":1}`),
	} {
		var v any
		if err := canon.Unmarshal(data, &v); err == nil || !strings.HasPrefix(err.Error(), "cannot decode") {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

// The decoder panics on it. A peel could end a master with its facts or a return.
func TestANilInPlaceOfATimeIsAnError(t *testing.T) {
	data, err := canon.Marshal(map[string]any{"at": nil})
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		At time.Time `json:"at"`
	}
	if err := canon.Unmarshal(data, &v); err == nil || !strings.Contains(err.Error(), "cannot decode") {
		t.Errorf("%v", err)
	}
}

func FuzzUnmarshal(f *testing.F) {
	seed, err := canon.Marshal(message{Name: "n", Args: map[string]any{"a": []any{1, 1.5, "x", nil, true, []byte("b")}}, When: time.Unix(1, 2)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{0x81, 0xa1, 'a', 0x93, 0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc0, 0xca, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m message
		_ = canon.Unmarshal(data, &m)
		var v any
		if canon.Unmarshal(data, &v) != nil {
			return
		}
		first, err := canon.Marshal(v)
		if err != nil {
			t.Fatalf("%#v: %v", v, err)
		}
		var again any
		if err := canon.Unmarshal(first, &again); err != nil {
			t.Fatalf("%x: %v", first, err)
		}
		second, err := canon.Marshal(again)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%x then %x, %v", first, second, err)
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	args := map[string]any{}
	for k := range strings.FieldsSeq("alpha beta gamma delta epsilon zeta eta theta") {
		args[k] = []any{k, 1, 2.5, map[string]any{"nested": true}}
	}
	data, err := canon.Marshal(message{Name: "bench", Args: args})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		var m message
		if err := canon.Unmarshal(data, &m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUnmarshalTyped decodes a struct in which no value is untyped, as most messages are.
func BenchmarkUnmarshalTyped(b *testing.B) {
	type part struct {
		Name  string    `json:"name"`
		When  time.Time `json:"when"`
		Parts []string  `json:"parts"`
	}
	type typed struct {
		part
		V     int    `json:"v"`
		Epoch uint64 `json:"epoch"`
		First part   `json:"first"`
		Last  part   `json:"last"`
	}
	p := part{"name", time.Unix(1, 0), []string{"a", "b"}}
	data, err := canon.Marshal(typed{V: 1, Epoch: 2, First: p, Last: p})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var m typed
		if err := canon.Unmarshal(data, &m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMarshal(b *testing.B) {
	args := map[string]any{}
	for k := range strings.FieldsSeq("alpha beta gamma delta epsilon zeta eta theta") {
		args[k] = []any{k, 1, 2.5, map[string]any{"nested": true}}
	}
	m := message{Name: "bench", Args: args}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canon.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}

func TestValuesAreEncodedAndDecodedAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				in := message{Name: strings.Repeat("n", i*1000), Parts: []message{{Data: int64(i + 1)}}}
				data, err := canon.Marshal(in)
				var out message
				if err == nil {
					err = canon.Unmarshal(data, &out)
				}
				if err != nil || !reflect.DeepEqual(out, in) {
					t.Errorf("%v, %.200v", err, out)
				}
			}
		})
	}
	all.Wait()
}

func TestNormalizedValuesEqualDecodedValues(t *testing.T) {
	for _, v := range []any{nil, true, "\xff", int64(-1), 1.5, uint8(3), float32(0.5), []int{1}, map[string]int{"a": 1}, struct {
		A any `json:"a"`
	}{uint16(7)}} {
		data, err := canon.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := canon.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		got, err := canon.Normalize(v)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%#v became %#v, want %#v, %v", v, got, want, err)
		}
	}
}

func BenchmarkNormalizeScalar(b *testing.B) {
	for b.Loop() {
		if _, err := canon.Normalize("pong"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestListsNestAsDeepAsTheLimitAndNoDeeper(t *testing.T) {
	const limit = 64 // a part of the protocol: peels of another version hold to it as well
	for _, depth := range []int{1, limit, limit + 1} {
		lists := append(bytes.Repeat([]byte{0x91}, depth-1), 0x91, 0xc0) // a list of one value, and nil in the innermost
		maps := append(bytes.Repeat([]byte{0x81, 0xa1, 'k'}, depth), 0xc0)
		for name, data := range map[string][]byte{"lists": lists, "maps": maps} {
			var v any
			if err := canon.Unmarshal(data, &v); (err == nil) != (depth <= limit) {
				t.Errorf("%d %s: %v", depth, name, err)
			}
		}
	}
}
