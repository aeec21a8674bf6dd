package api

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Health is what one of the masters says of its host and of the bus.
type Health struct {
	Time    time.Time `json:"time"` // by the clock of its host
	Streams []Stream  `json:"streams"`
	Led     bool      `json:"led,omitempty"`     // a master leads the settings service, or did less than 15 s ago
	Storage string    `json:"storage,omitempty"` // why the bus stores nothing now; empty: it does
}

// A Stream is how full one of the bus is. At a limit the oldest messages make room.
type Stream struct {
	Name        string `json:"name"`
	Messages    uint64 `json:"messages"`
	MaxMessages int64  `json:"max_messages,omitempty"` // 0: no limit
	Bytes       uint64 `json:"bytes"`
	MaxBytes    int64  `json:"max_bytes,omitempty"` // 0: no limit
	Copies      int    `json:"copies"`
	Behind      int    `json:"behind,omitempty"` // copies that are away or do not have everything
}

// Full is how much of a stream's limits is used, from 0 to 1; 0 for one without any.
func (s *Stream) Full() float64 {
	full := 0.0
	if s.MaxMessages > 0 {
		full = float64(s.Messages) / float64(s.MaxMessages)
	}
	if s.MaxBytes > 0 {
		full = max(full, float64(s.Bytes)/float64(s.MaxBytes))
	}
	return full
}

func (s *Server) health(ctx context.Context, _ struct{}) (*Health, error) {
	h := &Health{}
	if s.o.Stored != nil {
		if err := s.o.Stored(); err != nil {
			h.Storage = err.Error()
		}
	}
	var err error
	if h.Led, err = s.led(ctx); err != nil {
		return nil, err
	}
	lister := s.o.JetStream.ListStreams(ctx)
	for info := range lister.Info() {
		one := Stream{
			Name: info.Config.Name, Messages: info.State.Msgs, MaxMessages: max(info.Config.MaxMsgs, 0),
			Bytes: info.State.Bytes, MaxBytes: max(info.Config.MaxBytes, 0), Copies: info.Config.Replicas,
		}
		if info.Cluster != nil {
			for _, r := range info.Cluster.Replicas {
				if r.Offline || !r.Current {
					one.Behind++
				}
			}
		}
		h.Streams = append(h.Streams, one)
	}
	if err := lister.Err(); err != nil {
		return nil, fmt.Errorf("cannot list the streams: %w", err)
	}
	h.Time = time.Now()
	return h, nil
}

// led reports whether a master holds the lease of the reconciler, or held it less than 15 s ago: so long the bucket keeps
// the mark of a lease that has ended.
func (s *Server) led(ctx context.Context) (bool, error) {
	leases, err := s.o.JetStream.Stream(ctx, "KV_leases")
	if err == nil {
		_, err = leases.GetLastMsgForSubject(ctx, "$KV.leases.reconciler")
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the lease of the reconciler: %w", err)
	}
	return true, nil
}

// Health asks a master about its clock and its streams.
func (c *Client) Health(ctx context.Context) (*Health, error) {
	return call[Health](ctx, c, wire.API("master", "show", c.user), struct{}{})
}

// Certificate is what the server showed of itself; nil where the connection is not encrypted.
func (c *Client) Certificate() *x509.Certificate {
	state, err := c.nc.TLSConnectionState()
	if err != nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// CredentialEnds says whose credential a .creds file holds and when it ends; zero: never.
func CredentialEnds(creds []byte) (user string, ends time.Time, err error) {
	claims, err := userClaims(creds)
	if err != nil {
		return "", ends, err
	}
	if claims.Expires > 0 {
		ends = time.Unix(claims.Expires, 0)
	}
	return claims.Name, ends, nil
}

// userClaims reads a credential. The bus checks it; here it only makes subjects and tells dates.
func userClaims(creds []byte) (*jwt.UserClaims, error) {
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		return nil, err
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err == nil && claims.Name == "" {
		err = errors.New("it has no name")
	}
	return claims, err
}
