package strictyaml

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

var (
	decimal  = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	prefixed = regexp.MustCompile(`^[-+]?0(x[0-9a-fA-F]+|o[0-7]+|b[01]+)$`)
	floating = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	special  = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
	// ambiguous numbers have different values in YAML 1.1 and 1.2, or are strings in one of them.
	ambiguous = regexp.MustCompile(`^[-+]?(0[0-9_]+|[0-9][0-9_]*_[0-9_]*|0[xob][0-9a-fA-F_]*_[0-9a-fA-F_]*)$`)
)

func (b *builder) checkTag(y *yaml.Node, p *path, want string) {
	if tag := y.ShortTag(); tag != want {
		b.refuse(y, p, "tag %s is not supported", tag)
	}
}

func (b *builder) scalar(n *Node, y *yaml.Node, p *path) {
	tagged := y.Style&yaml.TaggedStyle != 0
	quoted := y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if !tagged && quoted {
		n.Kind, n.Value = String, y.Value
		return
	}
	if !tagged && y.Tag == "!!merge" {
		b.refuse(y, p, "<< is not supported; quote it if it is a value")
		return
	}
	if tagged && y.ShortTag() == "!!str" {
		n.Kind, n.Value = String, y.Value
		return
	}
	var problem string
	n.Kind, n.Value, problem = plain(y.Value)
	if problem != "" {
		b.refuse(y, p, "%s", problem)
		return
	}
	if !tagged {
		n.Timestamp = y.Tag == "!!timestamp"
		n.Empty = y.Value == ""
		return
	}
	want, ok := map[string]Kind{"!!null": Null, "!!bool": Bool, "!!int": Int, "!!float": Float}[y.ShortTag()]
	if !ok {
		b.refuse(y, p, "tag %s is not supported", y.ShortTag())
		return
	}
	if v, isInt := n.Value.(int64); isInt && want == Float {
		n.Kind, n.Value = Float, float64(v)
	}
	if n.Kind != want {
		b.refuse(y, p, "%q does not have the type of its tag %s", y.Value, y.ShortTag())
	}
}

// plain returns the type and value of a scalar without quotes, by the core schema of YAML 1.2, or the problem with it.
func plain(s string) (kind Kind, value any, problem string) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return Null, nil, ""
	case "true", "True", "TRUE":
		return Bool, true, ""
	case "false", "False", "FALSE":
		return Bool, false, ""
	}
	if !strings.ContainsRune("+-.0123456789", rune(s[0])) || strings.Count(s, ".") > 1 {
		return String, s, ""
	}
	switch {
	case decimal.MatchString(s), prefixed.MatchString(s):
		i, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			return Null, nil, fmt.Sprintf("number %s is out of range; quote it if it is a string", s)
		}
		return Int, i, ""
	case ambiguous.MatchString(s):
		return Null, nil, fmt.Sprintf("%s has different meanings in different YAML versions; "+
			"write the number without leading zeros and underscores, or quote it", s)
	case special.MatchString(s):
		return Null, nil, s + " is not supported; quote it if it is a string"
	case floating.MatchString(s):
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) {
			return Null, nil, fmt.Sprintf("number %s is out of range; quote it if it is a string", s)
		}
		return Float, f, ""
	}
	return String, s, ""
}
