package strictyaml

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"
)

var (
	nodeType     = reflect.TypeFor[*Node]()
	durationType = reflect.TypeFor[time.Duration]()
	anyType      = reflect.TypeFor[any]()
)

// Decode fills the struct (or map, slice, pointer to these) that into points to. Struct fields are
// named by their tag, `yaml:"name"`; fields without a tag are ignored, and those of an embedded struct count as its
// own. A field that is missing or null in the document keeps its value, so callers set defaults before.
//
// Unknown keys, values of another type and numbers out of range are errors. Decode returns all of them, up to
// [MaxErrors]; the caller must not use into then. Supported are bool, string, integers,
// floats, [time.Duration] (see [ParseDuration]), types with UnmarshalText (from a string), slices, maps
// with string keys, pointers, any (see [Node.Any]) and *Node (the node itself). Decode panics if the type of into is
// not supported.
func Decode(n *Node, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		panic(fmt.Sprintf("strictyaml: Decode into %T, which is not a pointer", into))
	}
	var d decoder
	d.value(n, v.Elem(), nil)
	return d.errs.Err()
}

type decoder struct{ errs Errors }

func (d *decoder) refuse(at Pos, p *path, format string, args ...any) {
	if len(d.errs) < MaxErrors {
		d.errs = append(d.errs, Error{at, p.String(), fmt.Sprintf(format, args...)})
	}
}

func (d *decoder) wrong(n *Node, p *path, want string) {
	d.refuse(n.Pos, p, "%s", n.Mismatch(want))
}

// Mismatch returns the message that n must be want ("a list of strings"), with advice for common mistakes.
func (n *Node) Mismatch(want string) string {
	got := n.Kind.String()
	if n.Kind != Null && n.Kind != List && n.Kind != Map {
		got += fmt.Sprintf(" (%.40s)", fmt.Sprint(n.Value))
	}
	msg := fmt.Sprintf("must be %s, not %s", want, got)
	s, isString := n.Value.(string)
	switch {
	case want == Bool.String() && isString:
		switch strings.ToLower(s) {
		case "yes", "on", "y", "true":
			msg += "; write true"
		case "no", "off", "n", "false":
			msg += "; write false"
		}
	case want == Map.String() && isString && noBlank.MatchString(s):
		msg += writeBlank
	case want == String.String() && (n.Kind == Int || n.Kind == Float || n.Kind == Bool):
		msg += "; put it in quotes"
	case want == String.String() && n.Kind == Map && len(n.Map) == 1 && n.Map[0].Value.Kind != Map &&
		n.Map[0].Value.Kind != List:
		msg += `; put it in quotes if the ": " belongs to the text`
	case strings.HasPrefix(want, "a duration") && (n.Kind == Int || n.Kind == Float):
		msg += fmt.Sprintf("; write %vs for seconds, %vm for minutes", n.Value, n.Value)
	case (want == Int.String() || want == Float.String()) && isString:
		if k, _, _ := plain(s); k == Int || k == Float {
			msg += "; write it without quotes"
		}
	}
	return msg
}

func (d *decoder) value(n *Node, v reflect.Value, p *path) {
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(n))
		return
	}
	if n.Kind == Null {
		return
	}
	if v.Type() == durationType {
		d.duration(n, v, p)
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(n, v.Elem(), p)
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, u, p)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, p)
	case reflect.Map:
		d.mapping(n, v, p)
	case reflect.Slice:
		d.slice(n, v, p)
	default:
		d.scalar(n, v, p)
	}
}

func (d *decoder) scalar(n *Node, v reflect.Value, p *path) {
	switch v.Kind() {
	case reflect.Bool:
		if n.Kind != Bool {
			d.wrong(n, p, Bool.String())
			return
		}
		v.SetBool(n.Value.(bool))
	case reflect.String:
		if n.Kind != String {
			d.wrong(n, p, String.String())
			return
		}
		v.SetString(n.Value.(string))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.integer(n, v, p)
	case reflect.Float32, reflect.Float64:
		switch n.Kind {
		case Float:
			v.SetFloat(n.Value.(float64))
		case Int:
			v.SetFloat(float64(n.Value.(int64)))
		default:
			d.wrong(n, p, Float.String())
		}
	default:
		if v.Type() != anyType {
			panic(fmt.Sprintf("strictyaml: Decode into a %s is not supported", v.Type()))
		}
		v.Set(reflect.ValueOf(n.Any()))
	}
}

func (d *decoder) integer(n *Node, v reflect.Value, p *path) {
	i, ok := n.Value.(int64)
	switch {
	case !ok:
		d.wrong(n, p, Int.String())
	case v.CanInt() && v.OverflowInt(i):
		bits := v.Type().Bits()
		d.refuse(n.Pos, p, "%d is out of range; the largest is %d", i, int64(math.MaxInt64)>>(64-bits))
	case v.CanInt():
		v.SetInt(i)
	case i < 0:
		d.refuse(n.Pos, p, "must not be negative, but is %d", i)
	case v.OverflowUint(uint64(i)):
		d.refuse(n.Pos, p, "%d is out of range; the largest is %d", i, uint64(math.MaxUint64)>>(64-v.Type().Bits()))
	default:
		v.SetUint(uint64(i))
	}
}

func (d *decoder) duration(n *Node, v reflect.Value, p *path) {
	dur, err := n.Duration()
	if err != nil {
		d.refuse(n.Pos, p, "%v", err)
		return
	}
	v.SetInt(int64(dur))
}

// Duration parses n with [ParseDuration]; the number 0 needs no unit. The error says what to write
// and has no position.
func (n *Node) Duration() (time.Duration, error) {
	if n.Kind == Int && n.Value == int64(0) {
		return 0, nil
	}
	s, ok := n.Value.(string)
	if !ok {
		return 0, fmt.Errorf("%s", n.Mismatch("a duration like 90s, 5m or 1d12h"))
	}
	return ParseDuration(s)
}

func (d *decoder) text(n *Node, u encoding.TextUnmarshaler, p *path) {
	s, ok := n.Value.(string)
	if !ok {
		d.wrong(n, p, String.String())
		return
	}
	if err := u.UnmarshalText([]byte(s)); err != nil {
		d.refuse(n.Pos, p, "%v", err)
	}
}

func (d *decoder) slice(n *Node, v reflect.Value, p *path) {
	if n.Kind != List {
		d.wrong(n, p, List.String())
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.List), len(n.List)))
	sub := &path{parent: p}
	for i, e := range n.List {
		sub.index = i
		d.element(e, v.Index(i), sub)
	}
}

// element decodes an element of a list or map. It refuses null, as elements have no default.
func (d *decoder) element(n *Node, v reflect.Value, p *path) {
	if n.Kind == Null && v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface {
		d.refuse(n.Pos, p, "must not be null")
		return
	}
	d.value(n, v, p)
}

func (d *decoder) mapping(n *Node, v reflect.Value, p *path) {
	if n.Kind != Map {
		d.wrong(n, p, Map.String())
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Map)))
	}
	sub := &path{parent: p}
	for _, pair := range n.Map {
		sub.key = pair.Key
		e := reflect.New(v.Type().Elem()).Elem()
		d.element(pair.Value, e, sub)
		v.SetMapIndex(reflect.ValueOf(pair.Key).Convert(v.Type().Key()), e)
	}
}

func (d *decoder) structure(n *Node, v reflect.Value, p *path) {
	if n.Kind != Map {
		d.wrong(n, p, Map.String())
		return
	}
	l := layoutOf(v.Type())
	sub := &path{parent: p}
	for _, pair := range n.Map {
		sub.key = pair.Key
		index, ok := l.fields[pair.Key]
		if !ok {
			d.refuse(pair.KeyPos, sub, "unknown key%s", SuggestKey(pair.Key, l.names))
			continue
		}
		d.value(pair.Value, v.FieldByIndex(index), sub)
	}
}

// A layout holds the fields of a struct by their tags, those of embedded structs included, and the tags in their order.
type layout struct {
	fields map[string][]int // indexes as [reflect.Value.FieldByIndex] takes them
	names  []string
}

var layouts sync.Map // reflect.Type → *layout

func layoutOf(t reflect.Type) *layout {
	if known, ok := layouts.Load(t); ok {
		return known.(*layout)
	}
	l := &layout{fields: make(map[string][]int, t.NumField())}
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); name != "" && name != "-" {
			l.fields[name] = f.Index
			l.names = append(l.names, name)
		}
	}
	layouts.Store(t, l)
	return l
}
