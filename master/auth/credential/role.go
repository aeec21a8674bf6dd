package credential

import (
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/access"
)

// A Role is a role that somebody wrote.
type Role struct {
	access.Role
	Text      string    `json:"text"` // as it was written
	Changed   time.Time `json:"changed"`
	ChangedBy string    `json:"changed_by"`
}

// A RoleRequest makes or replaces a role.
type RoleRequest struct {
	Name string `json:"name"`
	File string `json:"file"` // that errors name
	Text string `json:"text"` // YAML
}

const maxFile = 4 << 10 // bytes of the name of a file

// Check returns an error if the request is too large.
func (q *RoleRequest) Check() error {
	if len(q.Text) > access.MaxRole || len(q.File) > maxFile {
		return fmt.Errorf("the role has %d bytes, and %d are possible", len(q.Text), access.MaxRole)
	}
	return access.CheckName(q.Name)
}
