package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// parseArguments splits what follows the function: at most one word without "=" (the job's ID argument, such as a
// state's name), and key=value, key:=<yaml> and key=@file.
func parseArguments(words []string) (id string, args map[string]any, err error) {
	args = map[string]any{}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			if id != "" {
				return "", nil, usageError("cannot use the argument %q: there is already %q, arguments after it are key=value", w, id)
			}
			id = w
			continue
		}
		structured := strings.HasSuffix(key, ":")
		key = strings.TrimSuffix(key, ":")
		if key == "" {
			return "", nil, usageError("cannot use the argument %q: no key before the =", w)
		}
		if _, ok := args[key]; ok {
			return "", nil, usageError("cannot use the argument %q: %s is given twice", w, key)
		}
		if structured {
			args[key], err = structure(key, value)
		} else {
			args[key], err = scalar(value)
		}
		if err != nil {
			return "", nil, err
		}
	}
	return id, args, nil
}

func structure(key, value string) (any, error) {
	node, err := strictyaml.Parse(key, []byte(value))
	if err != nil {
		return nil, usageError("cannot use %s:=%s: %v", key, value, err)
	}
	return node.Any(), nil
}

// scalar reads a value as YAML would a plain or quoted scalar; what is none of YAML's other types is the text itself,
// so that commands need no second quoting.
func scalar(value string) (any, error) {
	if path, ok := strings.CutPrefix(value, "@"); ok {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the argument's file: %w", err)
		}
		return string(data), nil
	}
	node, err := strictyaml.Parse("argument", []byte(value))
	if err != nil {
		return value, nil
	}
	switch node.Kind {
	case strictyaml.Bool, strictyaml.Int, strictyaml.Float:
		return node.Value, nil
	case strictyaml.Null:
		if value == "null" || value == "~" {
			return nil, nil
		}
	case strictyaml.String:
		if strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "'") {
			return node.Value, nil
		}
	}
	return value, nil
}
