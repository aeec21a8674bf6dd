package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// clientConfig is the content of config.yaml, the configuration of one person.
type clientConfig struct {
	Current  string                `yaml:"current"` // default context; empty: localContext
	Contexts map[string]busContext `yaml:"contexts"`
}

// A busContext is the URL of a bus, with the credential and CA to connect with. Files are absolute paths.
type busContext struct {
	URL   string `yaml:"url" json:"url"`
	Creds string `yaml:"creds" json:"creds"`
	CA    string `yaml:"ca" json:"ca,omitempty"`
	// Login is the URL of the console at which zester login has made the credential; empty: it has not.
	Login string `yaml:"login" json:"login,omitempty"`
}

// localContext names the master on this host, which needs no entry.
const localContext = "local"

var validContext = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// configFile returns the path of config.yaml (XDG Base Directory Specification).
func configFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("cannot find your configuration directory: %w", err)
	}
	return filepath.Join(dir, "zester", "config.yaml"), nil
}

// readConfig returns an empty configuration if the file does not exist.
func readConfig() (c clientConfig, err error) {
	path, err := configFile()
	if err != nil {
		return c, nil // no home directory, so no file
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("cannot read your configuration: %w", err)
	}
	node, err := strictyaml.Parse(path, data)
	if err != nil {
		return c, err
	}
	return c, strictyaml.Decode(node, &c)
}

func writeConfig(c clientConfig) error {
	path, err := configFile()
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(c)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = renameio.WriteFile(path, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write your configuration: %w", err)
	}
	return nil
}

// find returns a context, nil for localContext.
func (c *clientConfig) find(name string) (*busContext, error) {
	if name == "" || name == localContext {
		return nil, nil
	}
	found, ok := c.Contexts[name]
	if !ok {
		return nil, &failure{
			code: exitUsage,
			err: fmt.Errorf("there is no context %q%s", name,
				strictyaml.Suggest(name, slices.Collect(maps.Keys(c.Contexts)))),
			hint: "zester context list shows all",
		}
	}
	return &found, nil
}

func (a *app) contextCommand() *cobra.Command {
	return group("context", "Manage connection contexts", a.contextAddCommand(), a.contextListCommand(),
		a.contextUseCommand(), a.contextRmCommand())
}

func (a *app) contextAddCommand() *cobra.Command {
	var use, force bool
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a context: the bus of --url, with --creds and --ca",
		Long: `add stores --url, --creds and --ca under a name in your config.yaml. Use the
context with --context NAME or ZESTER_CONTEXT, or make it the default with
zester context use. A name that exists is refused unless --force is given.`,
		Args: words("name"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			if !validContext.MatchString(name) || name == localContext {
				return usageError(
					"cannot name a context %q: use letters, digits, '.', '_' and '-', and not the name %s", name,
					localContext,
				)
			}
			c, err := readConfig()
			if err != nil {
				return err
			}
			if c.Contexts == nil {
				c.Contexts = map[string]busContext{}
			}
			if old, exists := c.Contexts[name]; exists && !force {
				return &failure{
					code: exitFailed,
					err:  fmt.Errorf("the context %s exists: it is %s", name, old.URL),
					hint: "--force replaces it",
				}
			}
			if c.Contexts[name], err = a.connect.context(); err != nil {
				return err
			}
			if use {
				c.Current = name
			}
			if err := writeConfig(c); err != nil {
				return err
			}
			for _, file := range []string{c.Contexts[name].Creds, c.Contexts[name].CA} {
				if _, err := os.Stat(file); file != "" && err != nil {
					fmt.Fprintf(a.errOut, "warning: the context does not work yet: %v\n", err)
				}
			}
			fmt.Fprintf(a.errOut, "context %s is %s\n", name, c.Contexts[name].URL)
			return nil
		},
	}
	cmd.Flags().BoolVar(&use, "use", false, "make it the default")
	cmd.Flags().BoolVar(&force, "force", false, "replace a context of this name")
	return cmd
}

// context returns the context that the flags describe, with absolute paths.
func (c *connection) context() (b busContext, err error) {
	if c.url == "" || c.creds == "" {
		return b, usageError("a context needs --url tls://HOST:PORT and --creds FILE")
	}
	b.URL = c.url
	if b.Creds, err = filepath.Abs(c.creds); err != nil {
		return b, err
	}
	if c.ca != "" {
		b.CA, err = filepath.Abs(c.ca)
	}
	return b, err
}

func (a *app) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Make a context the default; " + localContext + " is the master on this host",
		Args:  words("name"),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := readConfig()
			if err != nil {
				return err
			}
			if _, err := c.find(args[0]); err != nil {
				return err
			}
			c.Current = args[0]
			return writeConfig(c)
		},
	}
}

func (a *app) contextRmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a context; the credential file stays",
		Args:  words("name"),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := readConfig()
			if err != nil {
				return err
			}
			if args[0] == localContext {
				return usageError("cannot remove the context %s: it is the master on this host", localContext)
			}
			if _, err := c.find(args[0]); err != nil {
				return err
			}
			delete(c.Contexts, args[0])
			if c.Current == args[0] {
				c.Current = ""
				fmt.Fprintf(a.errOut, "context %s is the default now\n", localContext)
			}
			return writeConfig(c)
		},
	}
}

// contextView is a context as context list prints it.
type contextView struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	busContext
}

func (a *app) contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [NAME]",
		Short: "List contexts, or show one",
		Args:  atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := readConfig()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return a.showContext(c, args[0])
			}
			views := []contextView{c.view(localContext)}
			for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
				views = append(views, c.view(name))
			}
			t := table{header: []string{"NAME", "USED", "URL", "CREDENTIAL", "CA"}, wide: []string{"CA"}}
			for _, v := range views {
				used := ""
				if v.Current {
					used = "*"
				}
				t.add(v.Name, used, v.URL, v.Creds, v.CA)
			}
			if err := a.connect.applyContext(); err == nil && a.connect.passed != "" {
				fmt.Fprintln(a.errOut, a.connect.notUsed(""))
			}
			return a.show(views, t)
		},
	}
}

func (a *app) showContext(c clientConfig, name string) error {
	if _, err := c.find(name); err != nil {
		return err
	}
	v := c.view(name)
	return a.print(v, []string{name}, func() error { return encodeYAML(a.out, v) })
}

func (c *clientConfig) view(name string) contextView {
	return contextView{name, name == cmp.Or(c.Current, localContext), c.Contexts[name]}
}
