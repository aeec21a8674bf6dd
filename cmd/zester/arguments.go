package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// argument is key=value or key:=yaml. A word like "echo a=b", where what is before the = is no name, is neither.
var argument = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_.-]*)(:?)=(.*)$`)

// parseArguments splits what follows the function: at most one word that is not key=value (the job's ID argument,
// such as the command of cmd.run), and key=value, key:=<yaml> and key=@file.
func parseArguments(words []string) (id string, args map[string]any, err error) {
	args = map[string]any{}
	for _, w := range words {
		match := argument.FindStringSubmatch(w)
		if match == nil {
			if id != "" {
				return "", nil, usageError("cannot use the argument %q: there is already %q, all others are key=value", w, id)
			}
			id = w
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

func structure(key, value string) (any, error) {
	node, err := strictyaml.Parse(key, []byte(value))
	if err != nil {
		return nil, usageError("cannot use the argument %s:=%s: %v", key, value, err)
	}
	return node.Any(), nil
}

// scalar reads a value as YAML would a plain or quoted scalar; what is none of YAML's other types is the text itself,
// so that commands need no second quoting.
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

// fileContent is what a file holds, as text if it is that. One that no request could carry is not read to its end, which
// it may not have.
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
		return nil, usageError("cannot use the argument's file %s: it has more than the %d bytes that all arguments of a job may take", path, job.MaxArgs)
	case utf8.Valid(data):
		return string(data), nil
	}
	return data, nil
}
