package bucket

import (
	"errors"
	"fmt"
	"time"
)

// Kept is what a bus keeps of all that masters store. It is stored on the bus, so that all masters agree.
type Kept struct {
	// copies of every bucket and stream: 1 on a single server, 3 on a cluster
	Replicas int           `json:"replicas"`
	Audit    time.Duration `json:"audit_retention"` // after which entries of the audit log are removed
}

// MaxReplicas is the largest number of copies that a server of NATS makes.
const MaxReplicas = 5

// minAudit is the shortest retention of the audit log.
const minAudit = 24 * time.Hour

// Check returns an error if a bus cannot keep that.
func (k Kept) Check() error {
	if k.Replicas < 1 || k.Replicas > MaxReplicas {
		return fmt.Errorf("cannot keep %d copies of each stream: 1 to %d are possible", k.Replicas, MaxReplicas)
	}
	if k.Audit < minAudit {
		return errors.New("cannot keep the audit log for less than a day")
	}
	return nil
}

// Or returns k, with the values of other in place of those that are 0.
func (k Kept) Or(other Kept) Kept {
	if k.Replicas == 0 {
		k.Replicas = other.Replicas
	}
	if k.Audit == 0 {
		k.Audit = other.Audit
	}
	return k
}
