package daemon

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/settings/private"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A usageError is an error of the command line, as opposed to an error of the configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// A ValueError is an error about the value of a flag. The hint on standard error says where the value was set: as a
// flag, as a variable or in the file.
type ValueError struct {
	Flag string
	Err  error
}

func (e *ValueError) Error() string { return e.Err.Error() }

func (e *ValueError) Unwrap() error { return e.Err }

// source returns where the value of a flag was set.
func (p *program) source(name string) string {
	fs, path := flags(p.defaults(), new(bool))
	_ = fs.Parse(p.args) // they were parsed before
	given := false
	fs.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return "the flag --" + name
	}
	if _, ok := os.LookupEnv(p.prefix.variable(name)); ok {
		return "the variable " + p.prefix.variable(name)
	}
	file := cmp.Or(*path, os.Getenv(p.prefix.variable("config")))
	if data, err := os.ReadFile(file); err == nil {
		if node, err := strictyaml.Parse(file, data); err == nil &&
			node.Get(strings.ReplaceAll(name, "-", "_")) != nil {
			return "the file " + file
		}
	}
	return "the default"
}

// A prefix is the beginning of the names of a program's environment variables, such as ZESTER_PEEL_.
type prefix string

// variable returns the environment variable for a flag.
func (p prefix) variable(name string) string {
	return string(p) + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// load sets the values in cfg from the file named by --config or the variable of that flag, from the environment and
// from args. check is true with --check. The error is [flag.ErrHelp] for --help, and a *usageError for wrong flags.
func load(args []string, env prefix, cfg Config) (check bool, err error) {
	fs, path := flags(cfg, &check)
	if err := scan(fs, env, args); err != nil {
		return false, err
	}
	if fs.NArg() > 0 {
		return false, &usageError{fmt.Errorf("cannot use the argument %q: there are flags only", fs.Arg(0))}
	}
	return check, addFile(fs, *path, env, args, cfg)
}

// addFile reads the configuration file, if there is one, in whose place values of the environment and the flags stay.
func addFile(fs *flag.FlagSet, path string, env prefix, args []string, cfg Config) error {
	if path == "" {
		return nil
	}
	if err := readFile(path, cfg); err != nil {
		return err
	}
	return scan(fs, env, args) // again, because the file may have replaced values of the environment and the flags
}

// flags returns the flags of cfg, with --config and --check.
func flags(cfg Config, check *bool) (fs *flag.FlagSet, path *string) {
	fs = flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	path = fs.String("config", "", "read the configuration from `FILE`")
	fs.BoolVar(check, "check", false, "check the configuration and exit")
	cfg.Flags(fs)
	return fs, path
}

func (p *program) help() {
	fs, _ := flags(p.defaults(), new(bool))
	fmt.Fprintf(p.out, "usage: %s [flags]\n\nEvery flag can be given as a variable too: --data-dir as %s.\n"+
		"Flags win over variables, and both over the file. --version prints the version.\n"+
		"The guide is in the package zester: zester guide install.\n\n", p.name, p.prefix.variable("data-dir"))
	fs.SetOutput(p.out)
	fs.PrintDefaults()
	for _, c := range p.commands {
		fmt.Fprintf(p.out, "\n%s %s %s [flags]\n    %s\n", p.name, c.Name, c.Argument, c.About)
	}
}

// scan sets flags from the environment and then from args.
func scan(fs *flag.FlagSet, env prefix, args []string) error {
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		name := env.variable(f.Name)
		if v, ok := os.LookupEnv(name); ok {
			if err := fs.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("cannot use %s=%q: %w", name, v, err))
			}
		}
	})
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return &usageError{err}
	}
	return errors.Join(errs...)
}

func readFile(path string, cfg Config) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	node, err := strictyaml.Parse(path, data)
	if err != nil {
		return err
	}
	if n := node.Get("listen"); n != nil && n.Kind == strictyaml.Int {
		msg := fmt.Sprintf("write HOST:PORT, such as 0.0.0.0:%v for all addresses", n.Value)
		return strictyaml.Errors{{Pos: n.Pos, Path: "listen", Msg: msg}}
	}
	if err := strictyaml.Decode(node, cfg); err != nil {
		return err
	}
	if c, ok := cfg.(Rereadable); ok {
		return c.Given(path, node)
	}
	return nil
}

// DurationVar defines a flag whose value is written as in the configuration file: 90s, 5m, 1d12h.
func DurationVar(fs *flag.FlagSet, p *time.Duration, name, usage string) {
	fs.Var((*duration)(p), name, usage)
}

type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(s string) error {
	v, err := strictyaml.ParseDuration(s)
	*d = duration(v)
	return err
}

// CredentialName returns the name in the credential of a .creds file. It does not check the signature; the bus does.
func CredentialName(path string) (string, error) {
	if err := private.Check(path); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the credential: %w", err)
	}
	var claims struct {
		Name string `json:"name"`
	}
	token, err := nkeys.ParseDecoratedJWT(data)
	if err == nil {
		err = errors.New("it has no JWT")
		if part := strings.Split(token, "."); len(part) == 3 {
			var payload []byte
			if payload, err = base64.RawURLEncoding.DecodeString(part[1]); err == nil {
				err = json.Unmarshal(payload, &claims)
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("cannot use the credential in %s: %w", path, err)
	}
	return claims.Name, nil
}
