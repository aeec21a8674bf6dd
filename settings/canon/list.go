package canon

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// DecodeList decodes a list that has at most limit elements. Call it in the DecodeMsgpack method of a type of lists
// that others send: an element that takes one byte in a message may take 700 bytes of memory. The error names the
// elements as what.
func DecodeList[T any](dec *msgpack.Decoder, list *[]T, what string, limit int) error {
	n, err := dec.DecodeArrayLen()
	if err != nil || n <= 0 {
		return err
	}
	if n > limit {
		return fmt.Errorf("%d %s, the limit is %d", n, what, limit)
	}
	*list = make([]T, n)
	for i := range *list {
		if err := dec.Decode(&(*list)[i]); err != nil {
			return err
		}
	}
	return nil
}
