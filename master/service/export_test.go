package service

import "context"

// Try carries out a request without the bus.
func (v Verb) Try(ctx context.Context, data []byte) error {
	_, err := v.carryOut(ctx, &Call{Data: data})
	return err
}
