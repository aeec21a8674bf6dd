package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

func open(t testing.TB, path string) (*Journal, []string, string) {
	t.Helper()
	j, payloads, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j, texts(payloads), j.Damage()
}

func texts(payloads [][]byte) (list []string) {
	for _, p := range payloads {
		list = append(list, string(p))
	}
	return list
}

func all(list ...string) func() (payloads [][]byte, err error) {
	return func() (payloads [][]byte, err error) {
		for _, text := range list {
			payloads = append(payloads, []byte(text))
		}
		return payloads, nil
	}
}

// records returns the content of a file with the records of some texts, and the ends of the records.
func records(list []string) (data []byte, ends []int) {
	for _, text := range list {
		data = appendRecord(data, []byte(text))
		ends = append(ends, len(data))
	}
	return data, ends
}

var sample = []string{"one", "", "a third record that is longer", string(magic[:]) + "four", "five"}

func TestRecordsSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	j, got, damage := open(t, path)
	if got != nil || damage != "" {
		t.Errorf("a new file has %q, damage %q", got, damage)
	}
	if err := j.Append([]byte(sample[0]), []byte(sample[1])); err != nil {
		t.Fatal(err)
	}
	for _, text := range sample[2:] {
		if err := j.Append([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, got, damage = open(t, path); !slices.Equal(got, sample) || damage != "" { // as after a kill
		t.Errorf("%q, damage %q", got, damage)
	}
	if err := j.Append(make([]byte, MaxPayload+1)); err == nil {
		t.Error("a record of more than a mebibyte was accepted")
	}
}

func TestAFileThatIsCutAnywhereHasTheRecordsBeforeTheCut(t *testing.T) {
	data, ends := records(sample)
	for cut := range data {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		whole := 0
		for whole < len(ends) && ends[whole] <= cut {
			whole++
		}
		j, got, damage := open(t, path)
		if !slices.Equal(got, sample[:whole]) || damage != "" {
			t.Errorf("cut at %d: %q, damage %q", cut, got, damage)
		}
		if err := j.Append([]byte("next")); err != nil {
			t.Fatal(err)
		}
		if _, got, damage := open(t, path); !slices.Equal(got, append(slices.Clone(sample[:whole]), "next")) || damage != "" {
			t.Errorf("cut at %d, then a record more: %q, damage %q", cut, got, damage)
		}
	}
}

func TestADamagedRecordIsSkippedAndTold(t *testing.T) {
	data, ends := records(sample)
	for at := range data {
		path := filepath.Join(t.TempDir(), "list")
		bad := bytes.Clone(data)
		bad[at] ^= 0x55
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		i, _ := slices.BinarySearch(ends, at+1)
		want := slices.Delete(slices.Clone(sample), i, i+1)
		_, got, damage := open(t, path)
		if !slices.Equal(got, want) || damage == "" {
			t.Errorf("byte %d: %q, damage %q", at, got, damage)
		}
		if old, err := os.ReadFile(path + ".1"); err != nil || !bytes.Equal(old, bad) {
			t.Errorf("byte %d: the damaged file was not kept", at)
		}
		if _, got, damage = open(t, path); !slices.Equal(got, want) || damage != "" {
			t.Errorf("byte %d, opened again: %q, damage %q", at, got, damage)
		}
	}
}

func TestAFileThatCannotBeReadHasOneBeforeIt(t *testing.T) {
	data, _ := records(sample)
	for name, bad := range map[string][]byte{"empty": {}, "of noise": bytes.Repeat([]byte("noise"), 100)} {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".1", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, got, damage := open(t, path); !slices.Equal(got, sample) || damage == "" {
			t.Errorf("%s: %q, damage %q", name, got, damage)
		}
		if _, got, damage := open(t, path); !slices.Equal(got, sample) || damage != "" {
			t.Errorf("%s, opened again: %q, damage %q", name, got, damage)
		}
	}
	path := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, bytes.Repeat([]byte("noise"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, got, damage := open(t, path); got != nil || damage == "" {
		t.Errorf("without one before it: %q, damage %q", got, damage)
	}
}

func TestACrashWhileAFileIsWrittenAnewLosesNothing(t *testing.T) {
	data, _ := records(sample)
	less, _ := records(sample[2:])
	for name, files := range map[string]map[string][]byte{
		"the new file is cut":        {"": data, ".new": less[:5]},
		"the new file has its name":  {"": less, ".1": data},
		"the old file has none left": {".1": data, ".new": less},
	} {
		path := filepath.Join(t.TempDir(), "list")
		for suffix, content := range files {
			if err := os.WriteFile(path+suffix, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, got, damage := open(t, path)
		if !slices.Equal(got, sample) && !slices.Equal(got, sample[2:]) || damage != "" {
			t.Errorf("%s: %q, damage %q", name, got, damage)
		}
	}
}

func TestAFileIsWrittenAnewWhenItHasDoubled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	j, _, _ := open(t, path)
	text := bytes.Repeat([]byte("x"), 1000)
	n := 0
	for ; !j.IsLarge(); n++ {
		if err := j.Append(text); err != nil || n > 1000 {
			t.Fatal(n, err)
		}
	}
	if n < 60 || n > 70 {
		t.Errorf("it is large after %d KB", n)
	}
	if err := j.Rewrite(all(string(text), "last")); err != nil || j.IsLarge() {
		t.Fatal(err)
	}
	if err := j.Append([]byte("after")); err != nil {
		t.Fatal(err)
	}
	if _, got, _ := open(t, path); !slices.Equal(got, []string{string(text), "last", "after"}) {
		t.Errorf("%d records", len(got))
	}
}

func TestWhatTheDiskRefusesIsNotKeptUntilTheFileIsWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	j, _, _ := open(t, path)
	if err := j.Append([]byte("one")); err != nil {
		t.Fatal(err)
	}
	_ = j.file.Close() // so the disk fails
	for range 2 {
		if j.Append([]byte("two")) == nil {
			t.Error("a failed write is not an error")
		}
	}
	if err := j.Rewrite(all("one", "two")); err != nil {
		t.Fatal(err)
	}
	if err := j.Append([]byte("three")); err != nil {
		t.Fatal(err)
	}
	if _, got, damage := open(t, path); !slices.Equal(got, []string{"one", "two", "three"}) || damage != "" {
		t.Errorf("%q, damage %q", got, damage)
	}
}

func TestManyRunsShareAFlush(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	j, _, _ := open(t, path)
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			if err := j.Append(fmt.Appendf(nil, "%d", i)); err != nil {
				t.Error(err)
			}
			if err := j.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if j.synced != 50 {
		t.Errorf("%d records are on the disk", j.synced)
	}
	if _, got, _ := open(t, path); len(got) != 50 {
		t.Errorf("%d records", len(got))
	}
}

func FuzzParse(f *testing.F) {
	data, _ := records(sample)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		payloads, end, _ := parse(data)
		if end > int64(len(data)) {
			t.Fatal(end)
		}
		again, _ := records(texts(payloads))
		if back, _, skipped := parse(again); !slices.Equal(texts(back), texts(payloads)) || skipped != 0 {
			t.Fatalf("%q, want %q", back, payloads)
		}
	})
}
