package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// certificates is the file with the authorities that the image trusts: that of the host that makes it.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// nonRoot is the user and group of a master in its container.
const nonRoot = 65532

// The media types of the OCI image format.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// A descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// An index lists the manifests of an image.
type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// A manifest names configuration and layers of an image for one platform.
type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

// An imageConfig is the configuration of an image for one platform.
type imageConfig struct {
	platform
	Created time.Time       `json:"created"`
	Config  containerConfig `json:"config"`
	RootFS  rootFS          `json:"rootfs"`
}

type containerConfig struct {
	User       string              `json:",omitempty"`
	Env        []string            `json:",omitempty"`
	Entrypoint []string            `json:",omitempty"`
	Volumes    map[string]struct{} `json:",omitempty"`
	Labels     map[string]string   `json:",omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// An image collects the blobs of an archive.
type image struct {
	name, version string
	made          time.Time
	blobs         map[string][]byte // by digest
}

// writeImage writes an OCI archive with the program called name in each of dirs, whose last names are architectures of
// Go. All times are SOURCE_DATE_EPOCH.
func writeImage(name, version, file string, dirs []string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH must be the time of the commit in seconds")
	}
	i := image{name: name, version: version, made: time.Unix(epoch, 0).UTC(), blobs: map[string][]byte{}}
	list := index{SchemaVersion: 2, MediaType: typeIndex}
	for _, dir := range dirs {
		d, err := i.addPlatform(dir)
		if err != nil {
			return err
		}
		list.Manifests = append(list.Manifests, d)
	}

	inner, err := i.addJSON(typeIndex, list)
	if err != nil {
		return err
	}
	inner.Annotations = map[string]string{"org.opencontainers.image.ref.name": version}
	outer := index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{inner}}
	return i.write(file, outer)
}

func (i *image) addPlatform(dir string) (descriptor, error) {
	program, err := os.ReadFile(filepath.Join(dir, i.name))
	if err != nil {
		return descriptor{}, err
	}
	roots, err := os.ReadFile(certificates)
	if err != nil {
		return descriptor{}, fmt.Errorf("cannot read the authorities that the image trusts: %w", err)
	}

	plain, err := i.layer(program, roots)
	if err != nil {
		return descriptor{}, err
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(plain); err != nil {
		return descriptor{}, err
	}
	if err := w.Close(); err != nil {
		return descriptor{}, err
	}

	on := platform{Architecture: filepath.Base(dir), OS: "linux"}
	config := imageConfig{
		platform: on,
		Created:  i.made,
		Config:   i.container(),
		RootFS:   rootFS{"layers", []string{digest(plain)}},
	}
	described, err := i.addJSON(typeConfig, config)
	if err != nil {
		return descriptor{}, err
	}
	d, err := i.addJSON(typeManifest, manifest{
		SchemaVersion: 2, MediaType: typeManifest,
		Config: described,
		Layers: []descriptor{i.add(typeLayer, zipped.Bytes())},
	})
	d.Platform = &on
	return d, err
}

func (i *image) data() string {
	if i.name == "zester-peel" {
		return "/var/lib/zester-peel"
	}
	return "/var/lib/zester"
}

func (i *image) container() containerConfig {
	c := containerConfig{
		Entrypoint: []string{"/usr/bin/" + i.name},
		Env:        []string{"PATH=/usr/bin", "ZESTER_DATA_DIR=" + i.data()},
		Volumes:    map[string]struct{}{i.data(): {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    i.name,
			"org.opencontainers.image.version":  i.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if i.name == "zester-peel" {
		c.Env[1] = "ZESTER_PEEL_DATA_DIR=" + i.data()
	} else {
		c.User = fmt.Sprintf("%d:%d", nonRoot, nonRoot)
	}
	return c
}

// layer returns the tar of the one layer.
func (i *image) layer(program, roots []byte) ([]byte, error) {
	owner := 0
	if i.name != "zester-peel" {
		owner = nonRoot
	}
	passwd := fmt.Sprintf("root:x:0:0:root:/root:/sbin/nologin\nzester:x:%d:%[1]d:zester:%s:/sbin/nologin\n", nonRoot,
		i.data())
	group := fmt.Sprintf("root:x:0:\nzester:x:%d:\n", nonRoot)

	t := &archive{made: i.made}
	t.dir("etc", 0o755, 0)
	t.file("etc/group", 0o644, []byte(group))
	t.file("etc/passwd", 0o644, []byte(passwd))
	t.dir("etc/ssl", 0o755, 0)
	t.dir("etc/ssl/certs", 0o755, 0)
	t.file(strings.TrimPrefix(certificates, "/"), 0o644, roots)
	t.dir("tmp", 0o1777, 0)
	t.dir("usr", 0o755, 0)
	t.dir("usr/bin", 0o755, 0)
	t.file("usr/bin/"+i.name, 0o755, program)
	t.dir("var", 0o755, 0)
	t.dir("var/lib", 0o755, 0)
	t.dir(strings.TrimPrefix(i.data(), "/"), 0o700, owner)
	return t.bytes()
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func (i *image) add(mediaType string, data []byte) descriptor {
	d := digest(data)
	i.blobs[d] = data
	return descriptor{MediaType: mediaType, Digest: d, Size: len(data)}
}

func (i *image) addJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return i.add(mediaType, data), nil
}

func (i *image) write(file string, top index) error {
	t := &archive{made: i.made}
	t.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	list, err := json.Marshal(top)
	if err != nil {
		return err
	}
	t.file("index.json", 0o644, list)
	t.dir("blobs", 0o755, 0)
	t.dir("blobs/sha256", 0o755, 0)
	digests := make([]string, 0, len(i.blobs))
	for d := range i.blobs {
		digests = append(digests, d)
	}
	slices.Sort(digests)
	for _, d := range digests {
		t.file("blobs/"+strings.Replace(d, ":", "/", 1), 0o644, i.blobs[d])
	}
	data, err := t.bytes()
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// An archive is a tar in memory, in which every time is made. After an error it takes nothing.
type archive struct {
	buf  bytes.Buffer
	w    *tar.Writer
	made time.Time
	err  error // the first one
}

func (a *archive) dir(name string, mode fs.FileMode, owner int) {
	a.add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(mode), Uid: owner, Gid: owner}, nil)
}

func (a *archive) file(name string, mode fs.FileMode, data []byte) {
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: int64(len(data))}, data)
}

func (a *archive) add(h tar.Header, data []byte) {
	if a.w == nil {
		a.w = tar.NewWriter(&a.buf)
	}
	h.ModTime = a.made
	h.Format = tar.FormatPAX
	if a.err != nil {
		return
	}
	if a.err = a.w.WriteHeader(&h); a.err == nil {
		_, a.err = a.w.Write(data)
	}
	if a.err != nil {
		a.err = fmt.Errorf("cannot write %s: %w", h.Name, a.err)
	}
}

// bytes ends the archive and returns it.
func (a *archive) bytes() ([]byte, error) {
	if a.err == nil {
		a.err = a.w.Close()
	}
	return a.buf.Bytes(), a.err
}
