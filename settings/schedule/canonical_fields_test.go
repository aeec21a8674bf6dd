package schedule

import (
	"reflect"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
)

// TestCanonicalBytesHaveEveryField changes each value in an entry, however deep, and so finds a field that was added
// to the language and not to the canonical form.
func TestCanonicalBytesHaveEveryField(t *testing.T) {
	left := map[string]bool{
		"Clock.When": true, "Clock.Cron[].Text": true, // as they were written
		"API.ID": true, "API.Name": true, "API.By": true, "API.At": true, // do not change what runs
	}
	x, _, err := cron.Parse("0 4 * * *")
	if err != nil {
		t.Fatal(err)
	}
	e := New("x")
	e.Clock.Cron = []cron.Expr{x}
	same, changed := string(e.Canonical()), 0
	each(reflect.ValueOf(e).Elem(), "", func(path string, set func() (undo func())) {
		if left[path] {
			return
		}
		before := string(e.Canonical())
		undo := set()
		defer undo()
		if changed++; string(e.Canonical()) == before {
			t.Errorf("%s makes no difference", path)
		}
	})
	if changed < 45 {
		t.Errorf("only %d values were changed", changed)
	}
	if string(e.Canonical()) != same {
		t.Error("the entry was not put back")
	}
}

// each calls f for every value below v that can be changed.
func each(v reflect.Value, path string, f func(path string, set func() (undo func()))) {
	put := func(x reflect.Value) func() func() {
		return func() func() {
			was := reflect.New(v.Type()).Elem()
			was.Set(v)
			v.Set(x)
			return func() { v.Set(was) }
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			f(path, put(reflect.ValueOf(time.Unix(1, 0).UTC())))
			return
		}
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			if v.Type().Field(i).IsExported() {
				each(v.Field(i), name, f)
			}
		}
	case reflect.Slice:
		f(path, put(reflect.Append(v, reflect.New(v.Type().Elem()).Elem())))
		if v.Len() > 0 {
			each(v.Index(0), path+"[]", f)
			return
		}
		one := reflect.Append(v, reflect.New(v.Type().Elem()).Elem())
		undo := put(one)()
		defer undo()
		each(one.Index(0), path+"[]", f)
	case reflect.Map:
		f(path, put(reflect.ValueOf(map[string]any{"a": int64(1)})))
	case reflect.String:
		f(path, put(reflect.ValueOf("other").Convert(v.Type())))
	case reflect.Bool:
		f(path, put(reflect.ValueOf(!v.Bool()).Convert(v.Type())))
	case reflect.Uint8:
		f(path, put(reflect.ValueOf(v.Uint()+1).Convert(v.Type())))
	default:
		f(path, put(reflect.ValueOf(v.Int()+1).Convert(v.Type())))
	}
}
