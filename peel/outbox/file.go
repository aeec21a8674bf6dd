package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// unfinished ends the names of files that are being written.
const unfinished = ".new"

// digits is the length of a file's name, so that names sort as numbers do.
const digits = 20

func (o *Outbox) path(e entry) string {
	return filepath.Join(o.dir, fmt.Sprintf("%0*d", digits, e.number))
}

func numberOf(name string) (uint64, bool) {
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil && len(name) == digits
}

// write returns when the file and its name are on the disk.
func (o *Outbox) write(e entry, data []byte) error {
	name := o.path(e)
	file, err := os.OpenFile(name+unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(name+unfinished, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(name+unfinished))
	}
	if err := o.flush(); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// flush makes the names in the directory last.
func (o *Outbox) flush() error {
	dir, err := os.Open(o.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (o *Outbox) read(e entry) (Item, error) {
	data, err := os.ReadFile(o.path(e))
	if err != nil {
		return Item{}, err
	}
	return decode(data)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const checksumSize = 8 // hexadecimal

// encode gives one line, "checksum message-ID subject", and then the payload as it is. The checksum is CRC-32C of all
// that follows it.
func encode(i Item) ([]byte, error) {
	if i.MsgID == "" || i.Subject == "" || strings.ContainsAny(i.MsgID+i.Subject, " \n") {
		return nil, fmt.Errorf("%q and %q cannot be message ID and subject", i.MsgID, i.Subject)
	}
	data := fmt.Appendf(make([]byte, checksumSize), " %s %s\n", i.MsgID, i.Subject)
	data = append(data, i.Payload...)
	copy(data, fmt.Sprintf("%08x", crc32.Checksum(data[checksumSize:], castagnoli)))
	return data, nil
}

var errDamaged = errors.New("the file is damaged")

func decode(data []byte) (Item, error) {
	if len(data) < checksumSize || string(data[:checksumSize]) != fmt.Sprintf("%08x", crc32.Checksum(data[checksumSize:], castagnoli)) {
		return Item{}, errDamaged
	}
	line, payload, _ := bytes.Cut(data[checksumSize:], []byte("\n"))
	words := strings.Split(string(line), " ")
	if len(words) != 3 {
		return Item{}, errDamaged
	}
	return Item{MsgID: words[1], Subject: words[2], Payload: payload}, nil
}
