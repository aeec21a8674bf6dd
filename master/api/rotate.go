package api

import (
	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

// Rotatable is a secret of the masters that can be replaced while the fleet works.
type Rotatable string

// What can be rotated.
const (
	RotateKeys Rotatable = "keys" // that sign the credentials of the bus
	RotateCA   Rotatable = "ca"   // that signs the certificates of the listeners
)

// A RotateRequest names the secret to rotate or retire.
type RotateRequest struct {
	What  Rotatable `json:"what"`
	Force bool      `json:"force,omitempty"` // retire although credentials of the former are in use
}

// RotateAnswer is the state after a rotation.
type RotateAnswer struct {
	What     Rotatable            `json:"what"`
	Rotation *credential.Rotation `json:"rotation,omitempty"` // of keys
	Pin      string               `json:"pin,omitempty"`      // of the authority
}
