package strictyaml

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseDuration parses a Go duration that may also have the units d (24 h) and w (7 d): "90s", "1d12h", "1.5w". Signs
// and numbers without a unit are errors, except a plain 0.
func ParseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	if s == "" || s[0] == '-' || s[0] == '+' {
		return 0, fmt.Errorf("cannot parse duration %q; write it like 90s, 5m or 1d12h", s)
	}
	var sum time.Duration
	for rest := s; rest != ""; {
		digits := strings.TrimLeft(rest, "0123456789.")
		number := rest[:len(rest)-len(digits)]
		next := strings.IndexAny(digits, "0123456789.")
		if next < 0 {
			next = len(digits)
		}
		d, err := oneDuration(number, digits[:next])
		if err != nil {
			return 0, fmt.Errorf("cannot parse duration %q: %w", s, err)
		}
		if sum > math.MaxInt64-d {
			return 0, fmt.Errorf("duration %q is too long; the longest is 292 years", s)
		}
		sum, rest = sum+d, digits[next:]
	}
	return sum, nil
}

// FormatDuration returns a duration in the form that [ParseDuration] parses, without units that are zero: 5m, not 5m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func oneDuration(number, unit string) (time.Duration, error) {
	if number == "" {
		return 0, errors.New("write it like 90s, 5m or 1d12h")
	}
	size := time.Hour
	switch unit {
	case "":
		return 0, fmt.Errorf("%s has no unit; write %ss for seconds, %sm for minutes", number, number, number)
	case "d":
		size = 24 * time.Hour
	case "w":
		size = 7 * 24 * time.Hour
	default:
		d, err := time.ParseDuration(number + unit)
		if err != nil {
			if slices.Contains([]string{"ns", "us", "µs", "μs", "ms", "s", "m", "h"}, unit) {
				return 0, fmt.Errorf("%s%s is out of range", number, unit)
			}
			return 0, fmt.Errorf("unknown unit %q; the units are ms, s, m, h, d and w", unit)
		}
		return d, nil
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n <= int64(math.MaxInt64/size) {
		return time.Duration(n) * size, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f*float64(size) >= math.MaxInt64 {
		return 0, fmt.Errorf("%s%s is out of range", number, unit)
	}
	return time.Duration(f * float64(size)), nil
}
