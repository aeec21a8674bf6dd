package grants

import "fmt"

// Lengths of names in bytes: of people, masters and sites, and of peels in wire form.
const (
	maxName = 64
	maxPeel = 128
)

// CheckName returns an error if a credential of the role cannot have a name. A name is one token of a subject without
// wildcards; for a peel it is the wire form of its ID.
func CheckName(role Role, name string) error {
	limit := maxName
	if role == RolePeel {
		limit = maxPeel
	}
	if name == "" || len(name) > limit {
		return fmt.Errorf("cannot sign a credential for %.40q: a %s's name has 1 to %d characters", name, role, limit)
	}
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return fmt.Errorf(
				"cannot sign a credential for %q: %q is not allowed in a name, only letters, digits, '_' and '-'",
				name, name[i],
			)
		}
	}
	return nil
}

func isNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}
