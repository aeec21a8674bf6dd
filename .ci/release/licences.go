package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenceFile matches the names of files with a licence or a notice at the top of a module.
var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([-._].*)?$`)

// licences are phrases by which a text is recognised, in letters of either case.
var licences = []struct{ name, phrase string }{
	{"Apache-2.0", "Apache License"},
	{"MPL-2.0", "Mozilla Public License"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"ISC", "for any purpose with or without fee is hereby granted"},
	{"Unlicense", "This is free and unencumbered software"},
}

// refused are phrases of licences that ask for more than a notice of a program that is linked.
var refused = []string{
	"GNU GENERAL PUBLIC LICENSE", "GNU LESSER GENERAL PUBLIC LICENSE", "GNU AFFERO GENERAL PUBLIC LICENSE",
}

// classify returns the licences whose texts are in text.
func classify(text string) ([]string, error) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	contains := func(phrase string) bool { return strings.Contains(text, strings.ToLower(phrase)) }
	for _, phrase := range refused {
		if strings.HasPrefix(text, strings.ToLower(phrase)) {
			return nil, fmt.Errorf("the licence is the %s", phrase)
		}
	}

	var found []string
	for _, l := range licences {
		if contains(l.phrase) {
			found = append(found, l.name)
		}
	}
	if contains("Redistribution and use in source and binary forms") {
		name := "BSD-2-Clause"
		if contains("Neither the name") || contains("names of its contributors may") {
			name = "BSD-3-Clause"
		}
		found = append(found, name)
	}
	if len(found) == 0 {
		return nil, errors.New("the licence is not known")
	}
	return found, nil
}

// printLicences prints name, version, licence and full texts of each module in the programs, and of Go.
func printLicences(out io.Writer, programs []string) error {
	modules, err := modulesOf(programs)
	if err != nil {
		return err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	version, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		return err
	}
	dirs := map[string]string{"Go " + strings.TrimSpace(string(version)): strings.TrimSpace(string(goroot))}
	for _, m := range modules {
		if dirs[m[0]+" "+m[1]], err = moduleDir(m[0]); err != nil {
			return err
		}
	}

	fmt.Fprintln(out, "Zester contains the following software.")
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		if err := printLicence(out, name, dirs[name]); err != nil {
			return fmt.Errorf("cannot ship %s: %w", name, err)
		}
	}
	return nil
}

// modulesOf returns paths and versions of the modules in the programs, without the module of the programs.
func modulesOf(programs []string) ([][2]string, error) {
	versions := map[string]string{}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			return nil, err
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				return nil, fmt.Errorf("%s is replaced by %s: a release is built from what the module names", m.Path,
					m.Replace.Path)
			}
			versions[m.Path] = m.Version
		}
	}
	var modules [][2]string
	for _, path := range slices.Sorted(maps.Keys(versions)) {
		modules = append(modules, [2]string{path, versions[path]})
	}
	return modules, nil
}

// moduleDir returns the folder with the files of a module that this module needs.
func moduleDir(name string) (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", name).Output()
	if err != nil {
		return "", fmt.Errorf("cannot find the files of %s: %w", name, err)
	}
	return strings.TrimSpace(string(dir)), nil
}

func printLicence(out io.Writer, name, dir string) error {
	found, texts, err := licencesIn(dir)
	if err != nil {
		return err
	}
	rule := strings.Repeat("-", 80)
	fmt.Fprintf(out, "\n%s\n%s\nLicence: %s\n%s\n", rule, name, strings.Join(found, " and "), rule)
	for _, text := range texts {
		fmt.Fprintf(out, "\n%s\n", text)
	}
	return nil
}

// licencesIn returns the SPDX identifiers of the licences of a module, and the texts of all its licences and notices.
func licencesIn(dir string) (found, texts []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		if !f.Type().IsRegular() || !licenceFile.MatchString(f.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, nil, err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))

		names, err := classify(string(text))
		isLicence := !regexp.MustCompile(`(?i)^(notice|patents|copyright)`).MatchString(f.Name())
		if err != nil && isLicence {
			return nil, nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		if isLicence {
			found = append(found, names...)
		}
	}
	if len(found) == 0 {
		return nil, nil, errors.New("it has no file with a licence")
	}
	slices.Sort(found)
	return slices.Compact(found), texts, nil
}
