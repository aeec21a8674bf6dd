package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestEveryModuleOfTheProgramsHasALicence finds a new module that a release could not ship when it is added.
func TestEveryModuleOfTheProgramsHasALicence(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./cmd/...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Fields(string(out))
	if len(modules) < 100 {
		t.Fatalf("the modules are %q", modules)
	}
	seen := map[string]bool{}
	for pair := range slices.Chunk(modules, 2) {
		if seen[pair[0]] {
			continue
		}
		seen[pair[0]] = true
		if _, _, err := licencesIn(pair[1]); err != nil {
			t.Errorf("%s: %v", pair[0], err)
		}
	}
}

func TestALicenceIsKnownByItsText(t *testing.T) {
	for text, want := range map[string]string{
		"MIT License\n\nPERMISSION is hereby granted,\nfree of charge, to any person": "MIT",
		"Redistribution and use in source and binary forms, with or without":          "BSD-2-Clause",
		"Redistribution and use in source and binary forms. Neither the name of":      "BSD-3-Clause",
		"                 Apache License\n           Version 2.0":                     "Apache-2.0",
		"GNU GENERAL PUBLIC LICENSE\nVersion 3":                                       "the licence is the GNU GENERAL PUBLIC LICENSE",
		"All rights reserved":                                                         "the licence is not known",
	} {
		found, err := classify(text)
		if got := strings.Join(found, " "); got != want && (err == nil || err.Error() != want) {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
}
