// File lists.go has answers give every list, also an empty one, as the OpenAPI document says: call [fillLists] on an
// answer of a service, which was decoded for this request alone.

package rest

import (
	"reflect"
	"strings"
)

// fillLists makes each list that is nil and would be written as null an empty one, at any depth.
func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		fillLists(v.Elem()) // of a nil pointer the zero Value, whose kind is Invalid
	case reflect.Slice:
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if tag := v.Type().Field(i); tag.IsExported() {
				fillList(v.Field(i), tag)
				fillLists(v.Field(i))
			}
		}
	}
}

// fillList makes an empty list of a nil one, unless the field may lack.
func fillList(f reflect.Value, tag reflect.StructField) {
	mayLack := strings.HasSuffix(tag.Tag.Get("json"), ",omitempty")
	if f.Kind() == reflect.Slice && f.IsNil() && !mayLack && f.Type().Elem().Kind() != reflect.Uint8 {
		f.Set(reflect.MakeSlice(f.Type(), 0, 0))
	}
}
