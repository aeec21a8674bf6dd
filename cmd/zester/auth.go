package main

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// masterLife is how long a credential of a master is valid unless the user says otherwise.
const masterLife = 90 * 24 * time.Hour

func (a *app) authCommand() *cobra.Command {
	var c issueRequest
	var file string
	var peels []string
	issue := &cobra.Command{
		Use:   "issue ROLE NAME",
		Short: "Issue a credential, on the host that holds the signing keys",
		Long: `issue makes a key and a credential for one peel, person, site or master, signed
with the keys in the data directory of a master. It prints the credential, or
writes it to a file of mode 0600. The holder of the credential acts under its
name. If the first credential of a name is lost or expires soon, --again issues
another; the first stays valid until it expires.

A credential contains the CA certificates with which its holder checks the bus:
those in the file of --ca, else those of the embedded bus in the data directory.
With such a credential zester, zester-peel and zester-master need no --ca.

An operator runs functions and reads, an auditor reads. The role direct is an
operator who may also ask peels without a master (--direct): only the log of the
peel records that. An observer inspects the streams of the bus with the nats
command. A site is a NATS leaf node that connects the peels of --peels to the
bus; it may do what they may. Other peels need a new credential of the site.

The credential of a master expires after 90 days unless --ttl says otherwise.
The master renews it every day if it can write the file and one with the keys
runs. If not, issue another one with --again and replace the file. zester doctor
warns 14 days before. Nothing renews one of a site.`,
		Args: words("role", "name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.role, c.id = grants.Role(args[0]), args[1]
			if c.role == grants.RoleMaster && !cmd.Flags().Changed("ttl") {
				c.ttl = masterLife
			}
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
	durationVar(issue.Flags(), &c.ttl, "ttl", 0,
		"`TIME` until the credential expires; 0 for never (default: 90d for a master, else never)")
	issue.Flags().StringSliceVar(&peels, "peels", nil, "`IDS` of the peels of a site")
	issue.Flags().StringVar(&file, "out", "", "`FILE` to write to")
	issue.Flags().BoolVar(&c.again, "again", false, "issue another one if NAME has one already")
	return group("auth", "Issue and revoke credentials of people, peels and programs",
		a.canCommand(), a.whoCanCommand(), a.userCommand(), a.roleCommand(), a.authPeelCommand(),
		a.joinTokenCommand(), a.tokenCommand(), group("site", "Manage the credentials of sites", a.revokeSiteCommand()),
		group("master", "Manage the credentials of masters", a.listMastersCommand(), a.revokeMasterCommand()),
		issue, a.exportCommand(), a.rotateCommand(), a.retireCommand())
}

func (a *app) revokeSiteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke the credentials of a site and disconnect its server",
		Long: `revoke ends all credentials that were issued for a site, and disconnects its
server. The peels behind the server are offline until it has a new credential,
of zester auth issue site --again. Their own credentials stay valid. Only a
master can revoke a site in whose data directory its credential was issued.

zester auth user revoke revokes people, zester auth peel revoke peels, and
zester auth master revoke masters.`,
		Args: words("name of the site"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			s, err := api.SiteRevoke.Ask(cmd.Context(), client, api.SiteName{Name: args[0]})
			if err != nil {
				return hinted(err, api.CodeNotFound,
					"a master knows the sites that zester auth issue site has made in its data directory")
			}
			return a.printDone(s, s.Name, "site %s is revoked", s.Name)
		}),
	}
}

func (a *app) listMastersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the masters that have a credential, and when it expires",
		Long: `list shows the masters for which zester auth issue made a credential in the data
directory of the master that replies. A master that has the keys in its data
directory makes its own credential, and is not in the list.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			all, err := client.Credentials(cmd.Context())
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(h credential.Held) bool { return h.Role != grants.RoleMaster })
			t, names := table{header: []string{"NAME", "EXPIRES"}}, make([]string, len(all))
			for i, h := range all {
				names[i] = h.Name
				expires := "never"
				if !h.Expires.IsZero() {
					expires = when(h.Expires)
				}
				t.add(h.Name, expires)
			}
			return a.print(all, names, func() error { return a.printTable(t) })
		}),
	}
}

func (a *app) revokeMasterCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke the credentials of a master and disconnect it",
		Long: `revoke ends all credentials that zester auth issue made for a master, and the
bus disconnects it. Its jobs are taken over by another one. Only a master can
revoke it in whose data directory its credential was issued. A master that has
the keys itself can always make another credential: against that only new keys
help, zester auth rotate keys and then zester auth retire keys.`,
		Args: words("name of the master"),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, args []string) error {
			s, err := api.MasterRevoke.Ask(cmd.Context(), client, api.SiteName{Name: args[0]})
			if err != nil {
				return hinted(err, api.CodeNotFound,
					"zester auth master list shows the masters that have a credential of zester auth issue")
			}
			return a.printDone(s, s.Name, "master %s is revoked", s.Name)
		}),
	}
}

func (a *app) exportCommand() *cobra.Command {
	conf, hub, cluster := keystore.NATSConf{}, keystore.Hub{}, keystore.Cluster{}
	var nats bool
	cmd := &cobra.Command{
		Use:   "export --nats-conf",
		Short: "Print the configuration of a NATS server that serves the fleet",
		Long: `export prints a configuration for nats-server: the account of each role, and the
subjects that pass between accounts, signed with the keys in the data directory
of a master. It makes the keys if there are none. The configuration holds no
secret. Print it again after an upgrade of zester.

Next, zester auth issue master makes the credential for zester-master --nats. A
master with the keys in its data directory enrolls peels and revokes
credentials.

With --cluster it is one of three servers that keep the streams together, see
zester guide ha. With --leafnodes it accepts connections of site servers. With
--hub it is the server of a site itself: a leaf node, to which the peels of the
site connect. It has no streams, receives no revocations from masters, and needs
a credential of zester auth issue site.`,
		Args: words(),
		RunE: func(*cobra.Command, []string) error {
			if !nats {
				return usageError("zester auth export needs --nats-conf")
			}
			if len(hub.URLs) > 0 {
				if hub.Creds == "" {
					return usageError("--hub needs --hub-creds FILE, the credential of the site")
				}
				conf.Hub = &hub
			}
			hint := "--tls-cert and --tls-key name them"
			if cluster.Listen != "" || cluster.Server != "" || cluster.CA != "" || len(cluster.Routes) > 0 {
				conf.Cluster = &cluster
				hint = "--cluster HOST:PORT needs --server, --routes, --cluster-ca, --tls-cert and --tls-key"
			}
			if err := conf.Check(); err != nil {
				return &failure{code: exitUsage, err: err, hint: hint}
			}
			keys, err := keystore.Open(keystore.Dir(a.connect.dataDir))
			if err != nil {
				return err
			}
			conf.Trust = keys.Trust()
			text, err := conf.Text()
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.out, text)
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&nats, "nats-conf", false, "print the configuration of nats-server")
	f.StringVar(&conf.Listen, "listen", "127.0.0.1:4222", "`HOST:PORT` of the server")
	f.StringVar(&conf.Dir, "store", "/var/lib/nats", "data `DIR` of the server")
	f.StringVar(&conf.Cert, "tls-cert", "", "`FILE` with the server's certificate")
	f.StringVar(&conf.Key, "tls-key", "", "`FILE` with the key of that certificate")
	f.StringVar(&cluster.Listen, "cluster", "", "accept the other servers of the bus at `HOST:PORT`")
	f.StringVar(&cluster.Server, "server", "", "`NAME` of this server in the cluster")
	f.StringSliceVar(&cluster.Routes, "routes", nil, "`ADDRESSES` of --cluster of all servers, HOST:PORT")
	f.StringVar(&cluster.CA, "cluster-ca", "", "`FILE` with the CA certificates of the servers of the cluster")
	f.StringVar(&conf.LeafNodes, "leafnodes", "", "accept site servers at `HOST:PORT`")
	f.StringSliceVar(&hub.URLs, "hub", nil, "configure the server of a site, which connects to the bus at `URLS`")
	f.StringVar(&hub.Creds, "hub-creds", "", "`FILE` with the credential of the site")
	f.StringVar(&hub.CA, "hub-ca", "", "`FILE` with the CA certificates of the bus")
	return cmd
}

// An issueRequest describes the credential to issue.
type issueRequest struct {
	role  grants.Role
	id    string
	peels []target.PeelID // of a site
	ttl   time.Duration   // 0: it does not expire
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
			hint: "a master makes them at its first start; --data-dir names its data directory",
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
	// Sign before Register: a request that cannot be signed must not use up the name.
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
		return nil, &failure{
			code: exitFailed,
			err:  err,
			hint: "--again issues another one; both are valid until they expire",
		}
	case errors.Is(err, keystore.ErrTaken):
		return nil, &failure{
			code: exitFailed,
			err:  err,
			hint: "the bus does not tell '.' from '_': choose an ID that differs in another character",
		}
	case err != nil:
		return nil, err
	}
	creds, err := key.Creds(token)
	return append(creds, roots...), err
}

// authority returns the CA certificates to put into a new credential: from the file of --ca, else from the embedded bus
// in the data directory, else nil.
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

// certificates returns the certificates of a text in PEM, without its other blocks.
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

// beginCredential creates a temporary file for a credential, before the credential is issued: an unwritable path must
// not use up the name. endCredential replaces the file at path by it, with mode 0600.
func beginCredential(path string) (*renameio.PendingFile, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usageError(
			"cannot write the credential to %s: it is not a plain file; without --out it is printed", path,
		)
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
	case grants.RoleOperator, grants.RoleDirect, grants.RoleAuditor, grants.RoleObserver, grants.RoleMaster,
		grants.RoleSite:
	default:
		return usageError("there is no role %q: it is peel, operator, direct, auditor, observer, master or site",
			c.role)
	}
	switch {
	case c.role == grants.RoleSite && len(c.peels) == 0:
		return usageError("site %s needs --peels: the IDs of its peels", c.id)
	case c.role != grants.RoleSite && len(c.peels) > 0:
		return usageError("--peels does not go with the role %s: only a site has peels", c.role)
	case c.ttl < 0:
		return usageError("cannot use --ttl %s: it is 0 for never, or more", c.ttl)
	}
	return nil
}
