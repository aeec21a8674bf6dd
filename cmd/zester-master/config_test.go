package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/session"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

var discard = slog.New(slog.DiscardHandler)

// TestTheExampleNamesEveryField also holds that the example tells each field's default as it is.
func TestTheExampleNamesEveryField(t *testing.T) {
	const path = "../../examples/master.yaml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	node, err := strictyaml.Parse(path, text)
	if err != nil {
		t.Fatal(err)
	}
	value := reflect.ValueOf(*defaults().(*Config))
	for _, f := range reflect.VisibleFields(value.Type()) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, field := f.Tag.Get("yaml"), value.FieldByIndex(f.Index)
		if node.Get(name) == nil {
			t.Errorf("%s is not in the example", name)
			continue
		}
		if part := field; part.Kind() == reflect.Struct {
			for j := range part.NumField() {
				inner := part.Type().Field(j).Tag.Get("yaml")
				told := fmt.Sprintf("Default: %v\n  %s:", part.Field(j), inner)
				if node.Get(name).Get(inner) == nil || !part.Field(j).IsZero() && !strings.Contains(string(text), told) {
					t.Errorf("%s.%s is not in the example, or has a default that it does not tell", name, inner)
				}
			}
			continue
		}
		want := fmt.Sprintf("# Default: %v\n", field)
		switch {
		case name == "id", name == "data_dir":
			want = "# Default: "
		case field.IsZero() && field.Kind() == reflect.String:
			want = `# Default: ""`
		}
		before, _, _ := strings.Cut(string(text), "\n"+name+":")
		_, comment, ok := strings.Cut(before[strings.LastIndex(before, "\n\n")+1:], "# Default: ")
		if !ok || !strings.HasPrefix(strings.ToLower("# Default: "+comment+"\n"), strings.ToLower(want)) {
			t.Errorf("the comment of %s does not say %q", name, want)
		}
	}
	c := defaults().(*Config)
	if err := strictyaml.Decode(node, c); err != nil {
		t.Fatal(err)
	}
	c.Repo, c.DataDir = filepath.Join("../..", c.Repo), t.TempDir()
	if _, err := c.Prepare(discard); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join("../..", c.Path, "top.yaml")); err != nil {
		t.Errorf("no fleet where the example looks for it: %v", err)
	}
}

// TestThePlacesInTheExampleCanBeUsed reads the list of places in the comment of notify.
func TestThePlacesInTheExampleCanBeUsed(t *testing.T) {
	text, err := os.ReadFile("../../examples/master.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "\n# Default: []\nnotify: []")
	list := before[strings.LastIndex(before, "#\n#   - name"):]
	node, err := strictyaml.Parse("notify", []byte("notify:\n"+strings.ReplaceAll(list[2:], "#   ", "  ")))
	if err != nil {
		t.Fatal(err)
	}
	c := defaults().(*Config)
	if err := strictyaml.Decode(node, c); err != nil {
		t.Fatal(err)
	}
	places, err := c.places()
	if err != nil || len(places) != 4 {
		t.Errorf("%d places, %v", len(places), err)
	}
}

func TestWhatCannotWorkIsRefusedBeforeTheStart(t *testing.T) {
	creds := credential(t, grants.RoleMaster, "m2")
	for _, c := range []struct {
		name string
		set  func(*Config)
		want string
	}{
		{"name with a dot", func(c *Config) { c.ID = "a.b" }, `cannot use the master's id "a.b"`},
		{"name with a wildcard", func(c *Config) { c.ID = "*" }, `"*"`},
		{"name that is too long", func(c *Config) { c.ID = strings.Repeat("a", 65) }, "1 to 64"},
		{"address without a port", func(c *Config) { c.Listen = "127.0.0.1" }, `"127.0.0.1"`},
		{"port", func(c *Config) { c.Listen = "127.0.0.1:65536" }, `"65536"`},
		{"negative port", func(c *Config) { c.Listen = "127.0.0.1:-1" }, `"-1"`},
		{"no replicas", func(c *Config) { c.Replicas = -1 }, "at least 1"},
		{"replicas on one server", func(c *Config) { c.Replicas = 3 }, "set nats to the URL of a cluster"},
		{"poll", func(c *Config) { c.Repo, c.Poll = ".", 1 }, "1s is the least"},
		{"repo", func(c *Config) { c.Repo = "gopher://example.com/fleet" }, "gopher"},
		{"path", func(c *Config) { c.Repo, c.Path = ".", "../elsewhere" }, "../elsewhere"},
		{"external server without a credential", func(c *Config) { c.NATS = "nats://bus" }, "creds"},
		{"credential that is not there", func(c *Config) { c.NATS, c.Creds = "nats://bus", "/nowhere/creds" }, "/nowhere/creds"},
		{"credential of another", func(c *Config) { c.NATS, c.Creds, c.ID = "nats://bus", creds, "m3" }, `master "m3" with the credential of "m2"`},
		{"REST without a port", func(c *Config) { c.REST.Listen = "127.0.0.1" }, `"127.0.0.1"`},
		{"identities that are not there", func(c *Config) { c.Repo, c.Identities = ".", []string{"/nowhere/age.txt"} }, "/nowhere/age.txt"},
		{"identities without a repo", func(c *Config) { c.Identities = []string{"/nowhere/age.txt"} }, "without repo"},
		{"port of REST", func(c *Config) { c.REST.Listen = "127.0.0.1:65536" }, "65536"},
		{"certificate without a key", func(c *Config) { c.REST.Listen, c.REST.Cert = "127.0.0.1:0", "/nowhere/cert" }, "no key"},
		{"certificate without an address", func(c *Config) { c.REST.Cert, c.REST.Key = "/nowhere/cert", "/nowhere/key" }, "without an address"},
		{"certificate that is not there", func(c *Config) { c.REST = REST{"127.0.0.1:0", "/nowhere/cert", "/nowhere/key"} }, "/nowhere/cert"},
		{"password over http", func(c *Config) { c.Repo, c.Git.Password = "http://forge.example/fleet", "f" }, "use https"},
		{"policy of history", func(c *Config) { c.Repo, c.History = ".", "sometimes" }, `"sometimes"`},
		{"keys that are not there", func(c *Config) { c.Repo, c.Verify.SSH = ".", "/nowhere/keys" }, "/nowhere/keys"},
		{"webhook without a repo", func(c *Config) { c.Hooks = []Hook{{Name: "fleet"}} }, "without repo"},
		{"webhook of nobody", func(c *Config) { c.Repo, c.Hooks = ".", []Hook{{Name: "fleet", Provider: "sourceforge"}} }, `"sourceforge"`},
		{"webhook for a local repo", func(c *Config) { c.Repo, c.Hooks = ".", []Hook{{"fleet", "github", "", []string{"f"}}} }, "not the URL"},
		{"webhook without an address", func(c *Config) {
			c.Repo, c.Hooks = "https://forge.example/ops/fleet", []Hook{{"fleet", "github", "", []string{"f"}}}
		}, "rest.listen"},
		{"place without a repo", func(c *Config) { c.Notify = []Place{{Name: "forge"}} }, "without repo"},
		{"event that is none", func(c *Config) {
			c.Repo, c.Notify = ".", []Place{{Name: "ops", Provider: "slack", URLFile: "f", Events: []notify.Kind{"blokked"}}}
		}, `event "blokked" is none of`},
		{"plans that are none", func(c *Config) {
			c.Repo, c.Notify = "https://forge.example/ops/fleet", []Place{{Name: "f", Provider: "github", Token: "f", Plans: "all"}}
		}, "branches, forks or off"},
		{"plans of a chat", func(c *Config) {
			c.Repo, c.Notify = ".", []Place{{Name: "ops", Provider: "slack", URLFile: "f", Plans: "off"}}
		}, "only forges have plans"},
		{"mail to nobody", func(c *Config) {
			c.Repo, c.Notify = ".", []Place{{Name: "oncall", Provider: "mail", URL: "smtp://mail.example", From: "a@b.example"}}
		}, "0 addresses in to"},
		{"place for a local repo", func(c *Config) {
			c.Repo, c.Notify = ".", []Place{{Name: "forge", Provider: "github", Token: "f"}}
		}, "its url is not one of http"},
		{"two places of one name", func(c *Config) {
			p := Place{Name: "forge", Provider: "gitea", URL: "https://forge.example/ops/fleet", Token: "f"}
			c.Repo, c.Notify = ".", []Place{p, p}
		}, "two places have this name"},
		{"audit log of an hour", func(c *Config) { c.Audit = time.Hour }, "the least is 1d"},
		{"window of half a second", func(c *Config) { c.AckWindow = time.Second / 2 }, "the least is 1s"},
		{"assistants without an address", func(c *Config) { c.MCP.Serve = true }, "cannot serve assistants without an address"},
		{"assistants that may do all", func(c *Config) { c.MCP.Allow = "all" }, "mcp.allow is dispatch, or empty"},
		{"a limit below nothing", func(c *Config) { c.MCP.Limit = -1 }, "mcp.limit is 1 or more"},
		{"collector that is no URL", func(c *Config) { c.OTel.URL = "collector:4318" }, "want an http or https URL"},
		{"headers without a collector", func(c *Config) { c.OTel.HeadersFile = "/nowhere/headers" }, "set otel.url"},
		{"headers that are not there", func(c *Config) {
			c.OTel = OTel{"https://collector.example/v1/traces", "/nowhere/headers"}
		}, "/nowhere/headers"},
		{"console that is no URL", func(c *Config) { c.Console.URL = "zester.example.com" }, `"zester.example.com"`},
		{"console below a path", func(c *Config) { c.Console.URL = "https://a.example/z" }, "want https and a host"},
		{"console over http", func(c *Config) { c.Console.URL = "http://zester.example.com" }, "want https and a host"},
		{"zone that is none", func(c *Config) { c.Console.Zone = "Europe/Nowhere" }, "Europe/Nowhere"},
		{"zone of the host", func(c *Config) { c.Console.Zone = "Local" }, "want the name of a zone"},
		{"proxy that is no network", func(c *Config) { c.Console.Proxies = []string{"10.0.0.1"} }, `"10.0.0.1" in con`},
		{"name of a fleet", func(c *Config) { c.Console.Name = strings.Repeat("a", 41) }, "the most is 40"},
		{"sessions of a minute", func(c *Config) { c.Console.Idle = time.Minute }, "the least is 5m"},
		{"sessions of a week", func(c *Config) { c.Console.Lifetime = 7 * 24 * time.Hour }, "the most is 24h"},
		{"webhook on loopback", func(c *Config) {
			c.REST.Listen, c.Repo = "", "https://forge.example/ops/fleet"
			c.Hooks = []Hook{{"fleet", "github", "", []string{"f"}}}
		}, "rest.listen"},
		{"certificate without REST", func(c *Config) {
			c.REST = REST{"off", "/nowhere/cert", "/nowhere/key"}
		}, "without an address"},
		{"no data directory", func(c *Config) { c.DataDir = "" }, "data directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := defaults().(*Config)
			cfg.DataDir = t.TempDir()
			c.set(cfg)
			_, err := cfg.Prepare(discard)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestTheCredentialNamesTheMaster(t *testing.T) {
	cfg := defaults().(*Config)
	cfg.NATS, cfg.Creds, cfg.Replicas = "nats://bus", credential(t, grants.RoleMaster, "m2"), 3
	d, err := cfg.Prepare(discard)
	if err != nil || d.Name != "master m2" {
		t.Errorf("%q, %v", d.Name, err)
	}
}

// credential makes a .creds file and returns its path.
func credential(t *testing.T, role grants.Role, name string) string {
	t.Helper()
	keys, err := keystore.Open(filepath.Join(t.TempDir(), "auth"))
	if err != nil {
		t.Fatal(err)
	}
	creds, err := keys.Creds(role, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(path, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheUnitStartsThisProgram(t *testing.T) {
	f, err := os.Open("../../examples/systemd/zester-master.service")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	options, err := unit.DeserializeOptions(f)
	if err != nil {
		t.Fatal(err)
	}
	service := map[string]string{}
	for _, o := range options {
		service[o.Name] = o.Value
	}
	if service["Type"] != "notify" {
		t.Errorf("its type is %q", service["Type"])
	}
	start := strings.Fields(service["ExecStart"])
	if start[0] != "/usr/local/bin/zester-master" {
		t.Errorf("it starts %q", start[0])
	}
	set := flag.NewFlagSet("", flag.ContinueOnError)
	config := set.String("config", "", "")
	c := defaults().(*Config)
	c.Flags(set)
	if err := set.Parse(start[1:]); err != nil {
		t.Error(err)
	}
	if *config != "/etc/zester/master.yaml" || c.DataDir != "/var/lib/"+service["StateDirectory"] {
		t.Errorf("configuration %s, data directory %s", *config, c.DataDir)
	}
}

func TestTheConsoleOfAConfiguration(t *testing.T) {
	cfg := defaults().(*Config)
	cfg.Repo = "git@forge.example:ops/shops.git"
	o, err := cfg.console()
	if err != nil || o.Off || o.Fleet != "shops" || o.Host != "" || o.Zone != time.UTC {
		t.Errorf("%+v, %v", o, err)
	}

	cfg.Console = Console{
		Serve: true, Name: "Shops of Kent", URL: "https://Zester.example.com:443/", Zone: "Europe/London",
		Proxies: []string{"10.1.2.3/8", "::1/128"}, Idle: time.Hour, Lifetime: 8 * time.Hour,
	}
	o, err = cfg.console()
	if err != nil {
		t.Fatal(err)
	}
	if o.Fleet != "Shops of Kent" || o.Host != "zester.example.com" || o.Zone.String() != "Europe/London" {
		t.Errorf("%+v", o)
	}
	if fmt.Sprint(o.Proxies) != "[10.0.0.0/8 ::1/128]" {
		t.Errorf("%v", o.Proxies)
	}
	if want := (session.Options{Idle: time.Hour, Lifetime: 8 * time.Hour}); o.Sessions != want {
		t.Errorf("%+v, want %+v", o.Sessions, want)
	}
	for repo, want := range map[string]string{
		"": "", ".": "", "../..": "", "/srv/fleet": "fleet", "https://forge.example/ops/fleet.git": "fleet",
		"https://forge.example/": "forge.example", "examples/fleet": "fleet",
	} {
		if got := lastWord(repo); got != want {
			t.Errorf("the last word of %q is %q, want %q", repo, got, want)
		}
	}
	for listen, want := range map[string]string{"": "127.0.0.1:0", "off": "", "0.0.0.0:8440": "127.0.0.1:0"} {
		if got := (REST{Listen: listen}).onLoopback(); got != want {
			t.Errorf("rest.listen %q: on loopback at %q, want %q", listen, got, want)
		}
	}
}
