package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// argument matches key=value and key:=yaml. It does not match "echo a=b", where the text before = is not a name.
var argument = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_.-]*)(:?)=(.*)$`)

// parseArguments parses the words after the function: key=value, key:=<yaml>, key=@file, and other words, which are the
// job's ID argument, such as the command of cmd.run. Only a function whose positional argument is a list takes several
// of them.
func parseArguments(function string, words []string) (id string, args map[string]any, err error) {
	args = map[string]any{}
	for _, w := range words {
		match := argument.FindStringSubmatch(w)
		if match == nil {
			if id != "" && !takesList(function) {
				return "", nil, usageError(
					"cannot use the argument %q: there is already %q; write others as key=value", w, id,
				)
			}
			id = strings.TrimPrefix(id+" "+w, " ")
			continue
		}
		key, value := match[1], match[3]
		if _, ok := args[key]; ok {
			return "", nil, usageError("cannot use the argument %q: %s is given twice", w, key)
		}
		if match[2] == ":" {
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

// takesList reports whether the positional argument of a function is a list.
func takesList(function string) bool {
	f, _ := catalogue.Lookup(function)
	return slices.ContainsFunc(f.Params, func(p catalogue.Param) bool {
		return p.Positional && p.Type == catalogue.Strings
	})
}

func structure(key, value string) (any, error) {
	node, err := strictyaml.Parse(key, []byte(value))
	if err != nil {
		return nil, usageError("cannot use the argument %s:=%s: %v", key, value, err)
	}
	return node.Any(), nil
}

// scalar parses a value as a YAML scalar. Text stays as it was typed, so that commands need no second pair of quotes.
func scalar(value string) (any, error) {
	if path, ok := strings.CutPrefix(value, "@"); ok {
		return fileContent(path)
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

// fileContent returns the content of a file: a string if it is UTF-8, else bytes. It reads no more than one byte beyond
// the limit of a request, because the file may be endless.
func fileContent(path string) (any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the argument's file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, job.MaxArgs+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the argument's file: %w", err)
	case len(data) > job.MaxArgs:
		return nil, usageError(
			"cannot use the argument's file %s: it has more than %d bytes, the limit of all arguments of a job", path,
			job.MaxArgs,
		)
	case utf8.Valid(data):
		return string(data), nil
	}
	return data, nil
}
