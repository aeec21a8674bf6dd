package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/settings/private"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// runFile is the name of the file by which programs on a host find the master that runs there.
const runFile = "run.json"

// maxRunInfo bounds the file in bytes.
const maxRunInfo = 64 << 10

// RunInfo says how to reach a master that runs on this host, with the credential of an operator. Users who can read it
// can dispatch jobs.
type RunInfo struct {
	URL   string `json:"url"`
	CA    string `json:"ca,omitempty"` // path of a file with certificates
	Creds string `json:"creds"`        // what a .creds file holds
	PID   int    `json:"pid"`
	// Config is the configuration file as it was when the master started; its path is empty if there was none.
	Config ConfigFile `json:"config,omitzero"`
}

// A ConfigFile is a configuration file by the digests of its values.
type ConfigFile struct {
	Path string            `json:"path"`
	Keys map[string]string `json:"keys"` // digest of the value of each key at the top level
}

// ConfigFileOf returns the configuration file that doc was read from.
func ConfigFileOf(path string, doc *strictyaml.Node) (f ConfigFile, err error) {
	if f.Path, err = filepath.Abs(path); err != nil {
		return f, err
	}
	f.Keys = map[string]string{}
	for _, pair := range doc.Map {
		data, err := json.Marshal(pair.Value.Any())
		if err != nil {
			return f, err
		}
		sum := sha256.Sum256(data)
		f.Keys[pair.Key] = hex.EncodeToString(sum[:16])
	}
	return f, nil
}

// Restart returns the sorted keys whose values in a later reading of the file hold after a restart alone.
func (f *ConfigFile) Restart(later ConfigFile) (keys []string) {
	for _, all := range []map[string]string{f.Keys, later.Keys} {
		for key := range all {
			if f.Keys[key] != later.Keys[key] && key != "log_level" && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// WriteRunInfo replaces run.json in a data directory. Nobody but its owner can read it at any moment, and a reader
// sees either the old or the new one.
func WriteRunInfo(dir string, info RunInfo) error {
	data, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", runFile, err)
	}
	if err := writeSecret(filepath.Join(dir, runFile), append(data, '\n')); err != nil {
		return fmt.Errorf("cannot write %s: %w", runFile, err)
	}
	return nil
}

// writeSecret leaves a file of mode 0600, whatever the mode of the one was that it replaces.
func writeSecret(path string, data []byte) error {
	f, err := renameio.TempFile(filepath.Dir(path), path)
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// ReadRunInfo reads run.json in a data directory. The error is [fs.ErrNotExist] if there is none; a file that others
// may read or write is refused, and one that they could put there: it names the bus that gets the commands. Root reads
// the file of a master that runs as another user ([private.CheckRead]).
func ReadRunInfo(dir string) (RunInfo, error) {
	path := filepath.Join(dir, runFile)
	info, err := readRunInfo(path)
	if err != nil {
		return RunInfo{}, fmt.Errorf("cannot use %s: %w", path, err)
	}
	return info, nil
}

func readRunInfo(path string) (info RunInfo, err error) {
	if err := private.CheckRead(path); err != nil {
		return info, err
	}
	f, err := os.Open(path)
	if err != nil {
		return info, err
	}
	defer f.Close()
	data, err := private.Read(f, maxRunInfo)
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return RunInfo{}, err
	}
	if info.URL == "" || info.Creds == "" {
		return RunInfo{}, errors.New("it names no URL or no credential")
	}
	return info, nil
}

// RemoveRunInfo removes run.json from a data directory, unless another process has written it.
func RemoveRunInfo(dir string) error {
	info, err := ReadRunInfo(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.PID != os.Getpid() {
		return nil
	}
	if err := os.Remove(filepath.Join(dir, runFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove %s: %w", runFile, err)
	}
	return nil
}
