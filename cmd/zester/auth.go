package main

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) authCommand() *cobra.Command {
	var c issueRequest
	var file string
	var peels []string
	issue := &cobra.Command{
		Use:   "issue ROLE NAME",
		Short: "Issue a credential, on the host that holds the signing keys",
		Long: `issue makes a key and a credential for one peel, person or master, signed with the keys in the data directory
of a master, and prints it or writes it to a file of mode 0600. Whoever holds the credential speaks under its name. A
second one for the same name, whose first is lost or about to end, needs --again; the first stays valid until its end.

A credential carries the certificates by which its holder checks the bus: those in the file of --ca, or else those of
the embedded bus in the data directory. With such a credential zester, zester-peel and zester-master need no --ca.

An operator dispatches and reads, an auditor reads. The role direct is an operator who may also ask peels without a
master, by --direct: that leaves no record but the log of the peel. A site is a leaf node, a server of NATS that brings
the peels of --peels to the bus: it may say and hear what they may. For other peels make it a new credential.`,
		Args: words("role", "name"),
		RunE: func(_ *cobra.Command, args []string) error {
			c.role, c.id = grants.Role(args[0]), args[1]
			for _, p := range peels {
				c.peels = append(c.peels, target.PeelID(p))
			}
			if file == "" {
				creds, err := a.issue(c)
				if err == nil {
					_, err = a.out.Write(creds)
				}
				return err
			}
			out, err := beginCredential(file)
			if err != nil {
				return err
			}
			defer out.Cleanup()
			creds, err := a.issue(c)
			if err != nil {
				return err
			}
			if err := endCredential(out, creds); err != nil {
				return err
			}
			fmt.Fprintf(a.errOut, "credential of %s %s is in %s\n", args[0], args[1], file)
			return nil
		},
	}
	durationVar(issue.Flags(), &c.ttl, "ttl", 0, "`TIME` until the credential expires (default: never)")
	issue.Flags().StringSliceVar(&peels, "peels", nil, "the `PEELS` of a site")
	issue.Flags().StringVar(&file, "out", "", "`FILE` to write to")
	issue.Flags().BoolVar(&c.again, "again", false, "issue another one if NAME has one already")
	return group("auth", "Issue and revoke credentials: of people, peels, programs, sites and masters",
		a.userCommand(), a.authPeelCommand(), a.joinTokenCommand(), a.tokenCommand(),
		group("site", "Manage the credentials of sites", a.revokeSiteCommand()),
		issue, a.exportCommand(), a.rotateCommand(), a.retireCommand())
}

func (a *app) revokeSiteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke the credentials of a site and disconnect its server",
		Long: `revoke ends the credentials of a site that were made so far, and cuts the connections of its server: the peels behind it are
away until it shows another one, of zester auth issue site --again. Their own credentials stay what they are. A master
that has the keys does it, in whose data directory zester auth issue site has made the credential.

People are revoked by zester auth user revoke, peels by zester auth peel revoke, and masters by zester auth rotate keys and
zester auth retire keys.`,
		Args: words("name of the site"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			s, err := client.SiteRevoke(cmd.Context(), args[0])
			if err != nil {
				return hinted(err, api.CodeNotFound, "a master knows those that zester auth issue site has made in its data directory")
			}
			return a.print(s, []string{s.Name}, func() error {
				fmt.Fprintf(a.errOut, "site %s is revoked\n", s.Name)
				return nil
			})
		}),
	}
}

func (a *app) exportCommand() *cobra.Command {
	conf, hub := keystore.NATSConf{}, keystore.Hub{}
	var nats bool
	cmd := &cobra.Command{
		Use:   "export --nats-conf",
		Short: "Print the configuration of a NATS server that serves the fleet",
		Long: `export prints a configuration for nats-server: the accounts of the roles, and what passes between them, signed with the keys
in the data directory of a master, which are made if there are none. It holds no secret. Then zester auth issue master
makes the credential for zester-master --nats; a master with the keys in its data directory enrolls and revokes there.
Print it again after another version of zester was installed.

With --leafnodes the server hears servers of sites, with --hub it is the server of one: a leaf node, to which the peels of
the site connect. It has no streams, learns nothing from masters, and needs a credential of zester auth issue site.`,
		Args: words(),
		RunE: func(*cobra.Command, []string) error {
			if !nats {
				return usageError("zester auth export needs --nats-conf")
			}
			keys, err := keystore.Open(keystore.Dir(a.connect.dataDir))
			if err != nil {
				return err
			}
			conf.Trust = keys.Trust()
			switch {
			case len(hub.URLs) > 0 && hub.Creds == "":
				return usageError("--hub needs --hub-creds FILE, the credential of the site")
			case len(hub.URLs) > 0:
				conf.Hub = &hub
			}
			text, err := conf.Text()
			if err != nil {
				return &failure{code: exitUsage, err: err, hint: "--tls-cert and --tls-key name them"}
			}
			_, err = fmt.Fprint(a.out, text)
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&nats, "nats-conf", false, "print the configuration of nats-server")
	f.StringVar(&conf.Listen, "listen", "127.0.0.1:4222", "the server's `HOST:PORT`")
	f.StringVar(&conf.Dir, "store", "/var/lib/nats", "the server's `DIR`")
	f.StringVar(&conf.Cert, "tls-cert", "", "the server's certificate is in `FILE`")
	f.StringVar(&conf.Key, "tls-key", "", "its key is in `FILE`")
	f.StringVar(&conf.LeafNodes, "leafnodes", "", "hear servers of sites at `HOST:PORT`")
	f.StringSliceVar(&hub.URLs, "hub", nil, "it is the server of a site, for which the bus listens at `URLS`")
	f.StringVar(&hub.Creds, "hub-creds", "", "the site's credential is in `FILE`")
	f.StringVar(&hub.CA, "hub-ca", "", "the bus has a certificate of the authority in `FILE`")
	return cmd
}

// An issueRequest describes a credential that auth issue makes.
type issueRequest struct {
	role  grants.Role
	id    string
	peels []target.PeelID // of a site
	ttl   time.Duration   // 0: it does not end
	again bool
}

func (a *app) issue(c issueRequest) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	dir := keystore.Dir(a.connect.dataDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{
			code: exitFailed, err: fmt.Errorf("there are no keys in %s", dir),
			hint: "a master makes them at its first start; --data-dir says where they are",
		}
	}
	keys, err := keystore.Open(dir)
	if err != nil {
		return nil, err
	}
	key, err := credential.MakeKey()
	if err != nil {
		return nil, err
	}
	entry := credential.Key{Public: key.Public(), Issued: time.Now().UTC()}
	if c.ttl > 0 {
		entry.Expires = entry.Issued.Add(c.ttl)
	}
	// What cannot be signed takes no name.
	token, err := c.sign(keys, entry.Public)
	if err != nil {
		return nil, err
	}
	roots, err := a.connect.authority()
	if err != nil {
		return nil, err
	}
	_, err = keystore.Register(dir, keystore.Entry{Role: c.role, ID: c.id, Keys: []credential.Key{entry}}, c.again)
	switch {
	case errors.Is(err, keystore.ErrIssued):
		return nil, &failure{code: exitFailed, err: err, hint: "--again makes another one; both are valid until they end"}
	case errors.Is(err, keystore.ErrTaken):
		return nil, &failure{code: exitFailed, err: err, hint: "on the bus '.' and '_' are one: choose an ID that differs in another way"}
	case err != nil:
		return nil, err
	}
	creds, err := key.Creds(token)
	return append(creds, roots...), err
}

// authority returns the CA certificates to put into a new credential: from the file of --ca, else from the embedded bus in
// the data directory, else nil.
func (c *connection) authority() ([]byte, error) {
	file := c.ca
	if file == "" {
		if _, err := os.Stat(filepath.Join(c.dataDir, "bus")); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		file = filepath.Join(c.dataDir, "tls", "ca.crt")
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && c.ca == "" {
		return nil, nil // the embedded bus was never started by this version
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificates of the bus: %w", err)
	}
	return certificates(text), nil
}

// certificates returns the certificates of a text in PEM, and nothing else of it.
func certificates(text []byte) (certs []byte) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			certs = append(certs, pem.EncodeToMemory(block)...)
		}
	}
	return certs
}

// sign returns the JWT for a public key.
func (c issueRequest) sign(keys *keystore.Keys, public string) (string, error) {
	switch c.role {
	case grants.RoleSite:
		return keys.IssueSite(c.id, public, c.peels, c.ttl)
	case grants.RolePeel:
		return keys.Issue(c.role, target.PeelID(c.id).Wire(), public, c.ttl)
	}
	return keys.Issue(c.role, c.id, public, c.ttl)
}

// beginCredential makes the file that is to hold a credential, so that one that cannot be written takes no name. It appears
// under its path with endCredential, and then with mode 0600, whatever was there.
func beginCredential(path string) (*renameio.PendingFile, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usageError("cannot write the credential to %s: it is no plain file; without --out it is printed", path)
	}
	f, err := renameio.TempFile(filepath.Dir(path), path)
	if err != nil {
		return nil, fmt.Errorf("cannot write the credential: %w", err)
	}
	return f, nil
}

func endCredential(f *renameio.PendingFile, creds []byte) error {
	_, err := f.Write(creds)
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return fmt.Errorf("cannot write the credential: %w", err)
	}
	return nil
}

func (c issueRequest) check() error {
	switch c.role {
	case grants.RolePeel:
		if _, err := target.ParsePeelID(c.id); err != nil {
			return usageError("%w", err)
		}
	case grants.RoleOperator, grants.RoleDirect, grants.RoleAuditor, grants.RoleMaster, grants.RoleSite:
	default:
		return usageError("there is no role %q: it is peel, operator, direct, auditor, master or site", c.role)
	}
	if (c.role == grants.RoleSite) != (len(c.peels) > 0) {
		return usageError("a site has --peels, and nobody else has")
	}
	if c.ttl < 0 {
		return usageError("cannot make a credential that ended %s ago", -c.ttl)
	}
	return nil
}
