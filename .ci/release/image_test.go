package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// untar returns the files of a tar by name, and the header of each.
func untar(t *testing.T, r io.Reader) (files map[string][]byte, heads map[string]*tar.Header) {
	t.Helper()
	files, heads = map[string][]byte{}, map[string]*tar.Header{}
	for archive := tar.NewReader(r); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, heads
		}
		if err == nil {
			files[head.Name], err = io.ReadAll(archive)
			heads[head.Name] = head
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// blobs are the files of an OCI archive.
type blobs map[string][]byte

// read decodes the blob that d names, and checks its digest and size.
func (b blobs) read(t *testing.T, d descriptor, v any) []byte {
	t.Helper()
	data := b["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	if digest(data) != d.Digest || len(data) != d.Size {
		t.Fatalf("%s %s has %d bytes and the digest %s", d.MediaType, d.Digest, len(data), digest(data))
	}
	if v != nil {
		if err := json.Unmarshal(data, v); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// readImage returns the blobs of an OCI archive, and the manifests of its platforms.
func readImage(t *testing.T, data []byte) (blobs, []descriptor) {
	t.Helper()
	all, _ := untar(t, bytes.NewReader(data))
	stored := blobs(all)
	var outer, list index
	if err := json.Unmarshal(all["index.json"], &outer); err != nil {
		t.Fatal(err)
	}
	stored.read(t, outer.Manifests[0], &list)
	return stored, list.Manifests
}

func TestAnImageHasTheProgramsOfBothPlatforms(t *testing.T) {
	if _, err := os.Stat(certificates); err != nil {
		t.Skip("ca-certificates is not installed")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	var dirs []string
	for _, arch := range []string{"amd64", "arm64"} {
		dirs = append(dirs, filepath.Join(dir, arch))
		if err := os.Mkdir(filepath.Join(dir, arch), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, arch, "zester-master"), []byte("program of "+arch), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var written [2][]byte
	for i := range written {
		file := filepath.Join(dir, "image.tar")
		if err := writeImage("zester-master", "0.2.0", file, dirs); err != nil {
			t.Fatal(err)
		}
		var err error
		if written[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(written[0], written[1]) {
		t.Error("two runs differ")
	}

	stored, platforms := readImage(t, written[0])
	if len(platforms) != 2 {
		t.Fatalf("%d platforms", len(platforms))
	}
	for _, d := range platforms {
		checkPlatform(t, stored, d)
	}
}

// layer returns the tar of the only layer of the image for a platform, whose manifest d names, and the configuration.
func (b blobs) layer(t *testing.T, d descriptor) ([]byte, imageConfig) {
	t.Helper()
	var m manifest
	var config imageConfig
	b.read(t, d, &m)
	b.read(t, m.Config, &config)
	zipped, err := gzip.NewReader(bytes.NewReader(b.read(t, m.Layers[0], nil)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zipped)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Layers) != 1 || config.RootFS.DiffIDs[0] != digest(plain) || config.Architecture != d.Platform.Architecture {
		t.Errorf("%d layers for %s, and the configuration %+v", len(m.Layers), d.Platform.Architecture, config)
	}
	return plain, config
}

func checkPlatform(t *testing.T, stored blobs, d descriptor) {
	t.Helper()
	plain, config := stored.layer(t, d)
	if config.Config.User != "65532:65532" || config.Config.Labels["org.opencontainers.image.version"] != "0.2.0" {
		t.Errorf("the container of %s is %+v", d.Platform.Architecture, config.Config)
	}
	files, heads := untar(t, bytes.NewReader(plain))
	if got := string(files["usr/bin/zester-master"]); got != "program of "+d.Platform.Architecture {
		t.Errorf("the program is %q", got)
	}
	if data := heads["var/lib/zester/"]; data == nil || data.Uid != nonRoot || data.Mode != 0o700 {
		t.Errorf("the data directory is %+v", data)
	}
}

func TestAnImageThatCannotBeMadeIsAnError(t *testing.T) {
	a := &archive{}
	a.file("short", 0o644, nil)
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: "long", Size: 1}, []byte("two"))
	a.file("later", 0o644, nil)
	if _, err := a.bytes(); err == nil || !strings.Contains(err.Error(), "cannot write long: ") {
		t.Error(err)
	}
	i := image{blobs: map[string][]byte{}}
	if _, err := i.addJSON(typeConfig, func() {}); err == nil {
		t.Error("a function is JSON")
	}
}

func TestTheManualHasFlagsAndCommands(t *testing.T) {
	help := "usage: zester-master [flags]\n\nEvery flag is a variable too.\n\n  -id NAME\n    \tthe master's name\n\n" +
		"zester-master backup FILE [flags]\n    Write a backup.\n"
	page := manual("zester-master", "dispatches jobs", help)
	for _, want := range []string{
		".TP\n.B \\-\\-id NAME\nthe master's name\n", ".SH COMMANDS\n.TP\n.B zester\\-master backup FILE [flags]\nWrite a backup.\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}
