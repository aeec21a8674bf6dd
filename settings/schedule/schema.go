package schedule

// Schema is the part of JSON Schema (draft-07) that the schemas of a config repo's files use.
type Schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"` // a string, or several as []string
	Format      string             `json:"format,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	MaxLength   int                `json:"maxLength,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Minimum     *int               `json:"minimum,omitempty"`
	Maximum     *int               `json:"maximum,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
	MinItems    int                `json:"minItems,omitempty"`
	MaxItems    int                `json:"maxItems,omitempty"`
	MaxProps    int                `json:"maxProperties,omitempty"`
	Names       *Schema            `json:"propertyNames,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Additional  any                `json:"additionalProperties,omitempty"` // false or a *Schema
	AnyOf       []*Schema          `json:"anyOf,omitempty"`
}

// namePattern matches the names of entries and groups.
const namePattern = `^[A-Za-z0-9_.-]{1,128}$`

// durations describes the texts that [strictyaml.ParseDuration] reads; zero describes the number 0.
var (
	durations = matching(
		`^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)` +
			`(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w))*)$`,
	)
	zero = numbers(0, 0)
)

func numbers(least, most int) *Schema {
	return &Schema{Type: "integer", Minimum: &least, Maximum: &most}
}

func matching(pattern string) *Schema { return &Schema{Type: "string", Pattern: pattern} }

func words(list ...string) *Schema { return &Schema{Type: "string", Enum: list} }

// anyOf returns a schema of alternatives; nested alternatives are flattened.
func anyOf(list ...*Schema) *Schema {
	var flat []*Schema
	for _, s := range list {
		if len(s.AnyOf) > 0 {
			flat = append(flat, s.AnyOf...)
		} else {
			flat = append(flat, s)
		}
	}
	return &Schema{AnyOf: flat}
}

func oneOrMore(s *Schema, most int) *Schema {
	return anyOf(s, &Schema{Type: "array", Items: s, MinItems: 1, MaxItems: most})
}

// closed returns the schema of a map with these fields and no others. Null is allowed, as it removes a field when files
// are merged; no field is required. The names in the reference begin with above.
func closed(above string, fields []field) *Schema {
	s := &Schema{Type: "object", Properties: make(map[string]*Schema), Additional: false}
	for _, f := range fields {
		var forms []*Schema
		if f.schema != nil {
			forms = append(forms, f.schema)
		}
		if f.keys != nil {
			forms = append(forms, closed(above+f.name+".", f.keys))
		}
		value := anyOf(append(forms, &Schema{Type: "null"})...)
		value.Description = about(above + f.name)
		s.Properties[f.name] = value
		if f.alias != "" {
			s.Properties[f.alias] = value
		}
	}
	return s
}

// LayerSchema returns the schema of the map under the key `schedule` of one file. It accepts everything that
// [CheckFields] accepts.
func LayerSchema() *Schema {
	entry := closed("", fields)
	entry.Type = []string{"object", "null"}
	return &Schema{
		Type:       []string{"object", "null"},
		Names:      matching(namePattern),
		Additional: entry,
		MaxProps:   MaxEntries,
	}
}
