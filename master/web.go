package master

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/rest"
)

// checkREST checks the options of REST before anything is started or written.
func (m *Master) checkREST() error {
	o := m.o.REST
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("cannot serve REST with a certificate and no key, or with a key and no certificate")
	}
	if o.Listen == "" {
		if o.Hooks != nil {
			return errors.New("cannot receive webhooks without an address to listen on: set rest.listen")
		}
		if o.MCP != nil {
			return errors.New("cannot serve assistants without an address to listen on: set rest.listen")
		}
		if o.Cert != "" {
			return errors.New("cannot use a certificate for REST without an address to listen on")
		}
		return nil
	}
	config := &tls.Config{}
	if o.Cert != "" {
		var err error
		if config, err = pki.FromFiles(o.Cert, o.Key, m.log); err != nil {
			return err
		}
	}
	_, err := rest.New(rest.Options{Listen: o.Listen, TLS: config})
	return err
}

// web returns the REST server. Without a certificate in the options, the authority in the data directory signs one.
func (m *Master) web() (*rest.Server, error) {
	o := rest.Options{Listen: m.o.REST.Listen, Hooks: m.o.REST.Hooks, MCP: m.o.REST.MCP, Log: m.log}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, err
	}
	if m.o.REST.Cert != "" {
		if o.TLS, err = pki.FromFiles(m.o.REST.Cert, m.o.REST.Key, m.log); err != nil {
			return nil, err
		}
		return rest.New(o)
	}
	ca, err := m.ca()
	if err != nil {
		return nil, err
	}
	o.TLS = ca.Config(append(m.o.Names, host)...)
	return rest.New(o)
}
