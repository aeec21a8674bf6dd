package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

// An asset is a file that browsers keep for ever: its path has a hash of its content.
type asset struct {
	content []byte
	path    string
	kind    string // its Content-Type
}

// assets are all assets by name. The style sheets are served as one, in the order of their names.
var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	var css []byte
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic(err) // the files are part of the program
	}
	for _, e := range entries {
		content, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		switch path.Ext(e.Name()) {
		case ".css":
			css = append(css, content...)
		case ".js":
			all[e.Name()] = newAsset(e.Name(), content, "text/javascript; charset=utf-8")
		case ".svg":
			all[e.Name()] = newAsset(e.Name(), content, "image/svg+xml")
		}
	}
	all["console.css"] = newAsset("console.css", css, "text/css; charset=utf-8")
	return all
})

func newAsset(name string, content []byte, kind string) asset {
	sum := sha256.Sum256(content)
	return asset{bytes.Clone(content), "/assets/" + hex.EncodeToString(sum[:8]) + "/" + name, kind}
}

func assetPath(name string) string { return assets()[name].path }

func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets()[r.PathValue("name")]
	if !ok || a.path != r.URL.Path {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.content)
}
