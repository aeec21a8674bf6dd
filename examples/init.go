package examples

import (
	"embed"
	"io/fs"
)

//go:embed all:new ci/*.yaml schema/settings.json schema/top.json schema/zester.json
var forNewRepo embed.FS

// NewRepo has what a config repo gets at its beginning: its files in the folder new, a recipe for each forge as
// ci/FORGE.yaml, and the JSON Schemas of its files in the folder schema.
func NewRepo() fs.FS { return forNewRepo }
