// Package canon encodes and decodes everything that is sent or stored as canonical MessagePack. Call [Marshal] and
// [Unmarshal].
//
// Equal values have equal bytes: map keys are sorted, integers and floats have their shortest form. So digests of
// values can be compared, and an unchanged value need not be written. Struct fields are named by their `json` tag, so a
// type has the same names on the bus, in the store and in JSON output.
//
// Unmarshal accepts bytes from any sender. It checks nesting and every declared length against the data before the
// decoder runs. It ignores unknown fields (of a newer sender), leaves missing fields at zero (an older sender), and
// returns untyped values in one shape only: nil, bool, int64, float64, string, []byte, []any and map[string]any.
//
// Known gap: untyped values inside typed maps, other than map[string]any, keep the decoder's types.
package canon

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Raw is an encoded value, which Marshal copies.
type Raw = msgpack.RawMessage

// Skipped is a value that [Unmarshal] checks but does not decode.
type Skipped struct{}

// DecodeMsgpack skips the value.
func (*Skipped) DecodeMsgpack(dec *msgpack.Decoder) error { return dec.Skip() }

// Marshal returns the canonical encoding of v.
func Marshal(v any) ([]byte, error) {
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(buf)
	enc.SetCustomStructTag("json")
	enc.SetSortMapKeys(true)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("cannot encode %T: %w", v, err)
	}
	return bytes.Clone(buf.Bytes()), nil
}

// buffers are reused by Marshal.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// release returns a buffer to the pool unless it is larger than 16 KiB.
func release(buf *bytes.Buffer) {
	if buf.Cap() <= 16<<10 {
		buf.Reset()
		buffers.Put(buf)
	}
}

// Unmarshal decodes exactly one value from data into v, a non-nil pointer.
// Bytes after the value, nesting over [MaxDepth] and lengths beyond the end of data are errors.
func Unmarshal(data []byte, v any) error {
	if err := check(data); err != nil {
		return fmt.Errorf("cannot decode %s: %w", typeName(v), err)
	}
	if err := decode(data, v); err != nil {
		return fmt.Errorf("cannot decode %s: %w", typeName(v), err)
	}
	normalizeIn(reflect.ValueOf(v))
	return nil
}

// decode returns an error if the decoder panics, as it does on a nil in place of a time. It does not reuse such a
// decoder.
func decode(data []byte, v any) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("the decoder failed: %v", reason)
		}
	}()
	dec := msgpack.GetDecoder()
	dec.Reset(bytes.NewReader(data))
	dec.SetCustomStructTag("json")
	err = dec.Decode(v)
	msgpack.PutDecoder(dec)
	return err
}

func typeName(v any) string {
	if t := reflect.TypeOf(v); t != nil && t.Kind() == reflect.Pointer {
		return t.Elem().String()
	}
	return fmt.Sprintf("%T", v)
}

// normalizeIn normalizes the untyped values in v: an any, a map or a list of them, at the top or in the fields of a
// struct.
func normalizeIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			normalizeIn(v.Elem())
		}
	case reflect.Interface:
		if v.NumMethod() == 0 && v.CanSet() && !v.IsNil() {
			v.Set(reflect.ValueOf(normalize(v.Interface())))
		}
	case reflect.Struct:
		for _, i := range untypedFields(v.Type(), nil) {
			normalizeIn(v.Field(i))
		}
	case reflect.Map:
		if m, ok := v.Interface().(map[string]any); ok {
			for k, e := range m {
				m[k] = normalize(e)
			}
		}
	case reflect.Slice:
		if !holdsUntyped(v.Type().Elem(), nil) {
			return
		}
		for i := range v.Len() {
			normalizeIn(v.Index(i))
		}
	}
}

// fieldsByType caches what untypedFields returns.
var fieldsByType sync.Map // reflect.Type: []int

// untypedFields returns the indexes of the exported fields of a struct type that can hold untyped values. within are
// the types that contain it.
func untypedFields(t reflect.Type, within []reflect.Type) []int {
	if known, ok := fieldsByType.Load(t); ok {
		return known.([]int)
	}
	within = append(within, t)
	var fields []int
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && holdsUntyped(f.Type, within) {
			fields = append(fields, i)
		}
	}
	fieldsByType.Store(t, fields)
	return fields
}

// holdsUntyped reports whether values of a type can hold untyped values. A type that contains itself counts as one.
func holdsUntyped(t reflect.Type, within []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return holdsUntyped(t.Elem(), within)
	case reflect.Interface:
		return t.NumMethod() == 0
	case reflect.Map:
		return t == reflect.TypeFor[map[string]any]()
	case reflect.Struct:
		return slices.Contains(within, t) || len(untypedFields(t, within)) > 0
	}
	return false
}

// normalize returns an untyped value of the decoder in the shape of this package. A uint64 above the range of int64
// becomes a float64.
func normalize(v any) any {
	switch v := v.(type) {
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case uint64:
		if v > math.MaxInt64 {
			return float64(v)
		}
		return int64(v)
	case float32:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = normalize(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = normalize(v[k])
		}
	}
	return v
}

// Normalize returns v, a value of any Go type, in the shape of untyped values that [Unmarshal] returns.
func Normalize(v any) (any, error) {
	switch v.(type) {
	case nil, bool, string, int64, float64:
		return v, nil
	}
	data, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	if err := Unmarshal(data, &out); err != nil {
		return nil, err
	}
	return out, nil
}

var errTrailing = errors.New("bytes after the value")
