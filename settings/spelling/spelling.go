// Package spelling compares words, to suggest what a misspelled word may mean. Call [Distance].
package spelling

const maxWord = 128 // bytes

// Distance returns how many bytes have to be inserted, deleted, replaced or swapped with their neighbour to change a
// into b. It returns false if that is more than most, or a word is longer than 128 bytes.
func Distance(a, b string, most int) (n int, ok bool) {
	if len(a)-len(b) > most || len(b)-len(a) > most || len(a) > maxWord || len(b) > maxWord {
		return 0, false
	}
	var rows [3][maxWord + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d = 1 + min(last[j], last[j+1], row[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
			least = min(least, d)
		}
		if least > most { // so are the values of all later rows
			return 0, false
		}
		before, last, row = last, row, before
	}
	return last[len(b)], last[len(b)] <= most
}
