package api

import (
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A RevokeRequest requests the end of a person's credentials.
type RevokeRequest struct {
	Name string `json:"name"`
	Keep bool   `json:"keep,omitempty"` // leave in force what the person made
}

// Revoked is a revoked person, with all that the revocation ended.
type Revoked struct {
	credential.User
	// Made are the tokens, join tokens, users and credentials that the person made, and those that these users made.
	// They have ended, unless Kept says that they were left in force.
	Made []Made     `json:"made,omitempty"`
	Kept bool       `json:"kept,omitempty"`
	Jobs []wire.JID `json:"jobs,omitempty"` // canceled jobs that were open when the revocation began, or later
}

// TokenRevoked is a revoked bearer token, with all that the revocation ended.
type TokenRevoked struct {
	credential.Token
	Jobs []wire.JID `json:"jobs,omitempty"` // canceled jobs that were open when the revocation began, or later
}

// Made is a credential that a person made for others.
type Made struct {
	Kind MadeKind `json:"kind"`
	Name string   `json:"name"`
	By   string   `json:"by"`
}

// A MadeKind is a kind of credential that a person makes for others.
type MadeKind string

// The kinds.
const (
	MadeToken      MadeKind = "token"
	MadeJoinToken  MadeKind = "join token"
	MadeUser       MadeKind = "user"
	MadeCredential MadeKind = "credential" // one more for a user whom somebody else made
)
