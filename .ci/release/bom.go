package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// A bom is a bill of materials in CycloneDX. Fields that are not needed here keep their text.
type bom struct {
	components []map[string]json.RawMessage
	all        map[string]json.RawMessage
}

// A bomLicence is a licence of a component, by its SPDX identifier.
type bomLicence struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

func readBOM(file string) (b bom, err error) {
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &b.all)
	}
	if err == nil {
		err = json.Unmarshal(b.all["components"], &b.components)
	}
	if err != nil {
		return b, fmt.Errorf("cannot read the bill of materials %s: %w", file, err)
	}
	return b, nil
}

// text returns a field of a component that is a string.
func text(component map[string]json.RawMessage, field string) (s string) {
	_ = json.Unmarshal(component[field], &s) // a field of another type is no name of a module
	return s
}

// addLicences writes the licences of THIRD-PARTY.txt into a bill of materials: the tool that makes it finds some of them
// only, and names some wrongly.
func addLicences(file string) error {
	b, err := readBOM(file)
	if err != nil {
		return err
	}
	for _, c := range b.components {
		name := text(c, "name")
		dir, err := moduleDir(name)
		if err != nil {
			return err
		}
		found, _, err := licencesIn(dir)
		if err != nil {
			return fmt.Errorf("cannot ship %s: %w", name, err)
		}
		var all []bomLicence
		for _, id := range found {
			var l bomLicence
			l.License.ID = id
			all = append(all, l)
		}
		if c["licenses"], err = json.Marshal(all); err != nil {
			return err
		}
	}
	if b.all["components"], err = json.Marshal(b.components); err != nil {
		return err
	}

	data, err := json.Marshal(b.all)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	return os.WriteFile(file, out.Bytes(), 0o644)
}
