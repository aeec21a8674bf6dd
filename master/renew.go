package master

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	renewEvery  = 24 * time.Hour // or when two thirds of the credential's life are over, if that is sooner
	renewCheck  = time.Hour      // between two looks whether the credential is due
	renewAnswer = 10 * time.Second
)

// A renewal keeps the credential of a master from ending. It asks the masters that have the keys for a new JWT, with a
// proof of its own key, and writes it into the file, from which the connection reads it when the bus ends the former
// one. A credential without an end is left as it is.
type renewal struct {
	file string
	nc   *nats.Conn
	log  *slog.Logger
}

func newRenewal(file string, nc *nats.Conn, log *slog.Logger) *renewal {
	return &renewal{file: file, nc: nc, log: log}
}

// run renews the credential until ctx ends, and then returns nil.
func (r *renewal) run(ctx context.Context) error {
	last := "" // what kept it from renewing, which is logged once
	for {
		switch err := r.renewIfDue(ctx); {
		case err == nil:
			last = ""
		case ctx.Err() == nil && err.Error() != last:
			last = err.Error()
			r.log.Warn("credential of this master not renewed", "file", r.file, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(renewCheck):
		}
	}
}

func (r *renewal) own() (*credential.Own, fs.FileMode, error) {
	text, err := os.ReadFile(r.file)
	if err != nil {
		return nil, 0, err
	}
	info, err := os.Stat(r.file)
	if err != nil {
		return nil, 0, err
	}
	own, err := credential.ReadOwn(text)
	return own, info.Mode().Perm(), err
}

func (r *renewal) renewIfDue(ctx context.Context) error {
	own, mode, err := r.own()
	if err != nil || own.Expires.IsZero() {
		return err
	}
	due := own.Issued.Add(min(renewEvery, own.Expires.Sub(own.Issued)*2/3))
	if time.Now().Before(due) {
		return nil
	}
	q, err := own.Renewal()
	if err != nil {
		return err
	}
	renewed, err := r.ask(ctx, wire.API("master", "renew", own.Name), q)
	if err != nil {
		return err
	}
	text, err := own.Renew(*renewed)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(r.file, text, mode); err != nil {
		return fmt.Errorf("cannot write the new credential: %w", err)
	}
	r.log.Debug("credential of this master renewed", "file", r.file)
	return nil
}

func (r *renewal) ask(ctx context.Context, subject string, q credential.Renewal) (*credential.Renewed, error) {
	ctx, cancel := context.WithTimeout(ctx, renewAnswer)
	defer cancel()
	data, err := canon.Marshal(q)
	if err != nil {
		return nil, err
	}
	msg, err := r.nc.RequestWithContext(ctx, subject, data)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, errors.New("no master that runs now has the keys of the bus: make a new one with zester auth issue")
	}
	if err != nil {
		return nil, err
	}
	if err := api.ReplyError(msg); err != nil {
		return nil, err
	}
	renewed := &credential.Renewed{}
	return renewed, canon.Unmarshal(msg.Data, renewed)
}

var credentialEnd = prometheus.NewDesc("zester_master_credential_end_timestamp_seconds",
	"When the credential of this master ends, in seconds since 1970. Absent if it has no end.", nil, nil)

// Describe implements [prometheus.Collector].
func (r *renewal) Describe(to chan<- *prometheus.Desc) { to <- credentialEnd }

// Collect implements [prometheus.Collector].
func (r *renewal) Collect(to chan<- prometheus.Metric) {
	if own, _, err := r.own(); err == nil && !own.Expires.IsZero() {
		to <- prometheus.MustNewConstMetric(credentialEnd, prometheus.GaugeValue, float64(own.Expires.Unix()))
	}
}
