// File object.go decodes JSON objects that go on to the bus. Call [decodeObject].

package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// decodeObject decodes an object. Numbers without a fraction or an exponent are int64, as on the command line, others
// float64. An object that nests deeper than depth, or that is followed by something else, is refused.
func decodeObject(data []byte, depth int) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is something after the arguments")
	}
	v, err := settled(m, depth)
	if err != nil {
		return nil, err
	}
	m, _ = v.(map[string]any)
	return m, nil
}

// settled turns numbers into int64 and float64.
func settled(v any, depth int) (_ any, err error) {
	if depth == 0 {
		return nil, errors.New("the arguments nest too deep")
	}
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if v[key], err = settled(value, depth-1); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, value := range v {
			if v[i], err = settled(value, depth-1); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if err != nil || math.IsInf(f, 0) {
			return nil, fmt.Errorf("the number %.40s is too large", v)
		}
		return f, nil
	}
	return v, nil
}
