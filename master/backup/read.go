package backup

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
)

// Check reads an archive to its end, and returns an error unless everything is there as it was written.
func Check(r io.Reader) (Manifest, error) {
	return read(r, func(Manifest) error { return nil }, func(_ int, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
}

// read calls begin with the manifest, and then take for each member in the order of [Manifest.members], with the
// number of the member. It checks sizes and hashes once take has read a member to its end.
func read(r io.Reader, begin func(Manifest) error, take func(i int, r io.Reader) error) (m Manifest, err error) {
	archive := tar.NewReader(r)
	head, err := archive.Next()
	if err != nil || head.Name != manifestName {
		return m, errors.Join(fmt.Errorf("it is not a backup: it does not begin with %s", manifestName), err)
	}
	if m, err = readManifest(archive); err != nil {
		return m, err
	}
	if err := begin(m); err != nil {
		return m, err
	}
	for i, want := range m.members() {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return m, fmt.Errorf("it ends before %s", want.Name)
		}
		if err != nil {
			return m, err
		}
		if head.Name != want.Name || head.Size != want.Size {
			return m, fmt.Errorf("it has %.80q with %d bytes in the place of %s with %d",
				head.Name, head.Size, want.Name, want.Size)
		}
		sum := newHashed()
		if err := take(i, io.TeeReader(archive, sum)); err != nil {
			return m, err
		}
		if got := sum.part(want.Name); got != want {
			return m, fmt.Errorf("%s was changed since it was written: its hash differs", want.Name)
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return m, errors.Join(errors.New("it has more than its manifest names"), err)
	}
	_, err = io.Copy(io.Discard, r) // encryption detects at the end that a file was cut off
	return m, err
}
