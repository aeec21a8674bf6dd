package facts

import (
	"context"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func collect(t testing.TB, static target.Facts) target.Facts {
	t.Helper()
	f, err := Collect(t.Context(), static)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheHostIsDescribed(t *testing.T) {
	f := collect(t, nil)
	want := []string{"os", "os_family", "kernel", "arch", "cpus", "hostname", "fqdn", "ipv4", "ipv6", "zester_version"}
	if runtime.GOOS == "linux" {
		want = append(want, "kernel_release", "mem_mb", "virtual")
	}
	for _, name := range want {
		if f[name] == nil || f[name] == "" {
			t.Errorf("no %s in %v", name, f)
		}
	}
	for _, list := range []string{"ipv4", "ipv6"} {
		for _, v := range f[list].([]any) {
			if a, err := netip.ParseAddr(v.(string)); err != nil || a.IsLoopback() || a.Is4() != (list == "ipv4") {
				t.Errorf("%s: %v", list, v)
			}
		}
	}
}

func TestFactsAreStableAndInTheShapeOfDecodedOnes(t *testing.T) {
	f := collect(t, target.Facts{"role": "web", "rack": int64(4)})
	again := collect(t, target.Facts{"role": "web", "rack": int64(4)})
	if !reflect.DeepEqual(f, again) {
		t.Errorf("%v\n%v", f, again)
	}
	travelled, err := canon.Normalize(f)
	if err != nil || !reflect.DeepEqual(travelled, any(map[string]any(f))) {
		t.Errorf("%v\n%v, %v", f, travelled, err)
	}
}

func TestStaticFactsWin(t *testing.T) {
	static := target.Facts{"os": "plan9", "kernel": nil, "role": "web"}
	f := collect(t, static)
	if _, ok := f["kernel"]; ok || f["os"] != "plan9" || f["role"] != "web" || f["arch"] != runtime.GOARCH {
		t.Errorf("%v", f)
	}
	if len(static) != 3 {
		t.Errorf("the given facts were changed: %v", static)
	}
}

func TestCollectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Collect(ctx, nil); err != context.Canceled {
		t.Errorf("%v", err)
	}
}

func TestDistributions(t *testing.T) {
	for want, text := range map[release]string{
		{"debian", "debian", "12"}:        "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n",
		{"debian", "debian", ""}:          "PRETTY_NAME=\"Debian GNU/Linux trixie/sid\"\nID=debian\n",
		{"ubuntu", "debian", "24.04"}:     "ID=ubuntu\r\nID_LIKE=debian\r\nVERSION_ID=\"24.04\"\r\n",
		{"rocky", "redhat", "9.4"}:        "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"",
		{"fedora", "redhat", "41"}:        "ID=fedora\nVERSION_ID=41\n",
		{"amzn", "redhat", "2023"}:        "ID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\n",
		{"opensuse-leap", "suse", "15.6"}: "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"15.6\"\n",
		{"alpine", "alpine", "3.20.1"}:    "# ID=x\nID=alpine\nVERSION_ID=3.20.1\n",
		{"arch", "arch", ""}:              "ID=arch\nBUILD_ID=rolling\n",
		{"manjaro", "arch", ""}:           "ID='manjaro'\nID_LIKE='arch'\n",
		{"nixos", "nixos", "24.05"}:       "ID=nixos\nVERSION_ID=\"24.05\"\n",
		{"linux", "linux", ""}:            "",
		{"own", "own", `a"b\`}:            "ID=OWN\nVERSION_ID=\"a\\\"b\\\\\"\nnonsense\n",
		{"poky", "poky", "5.0"}:           "ID=poky\nID_LIKE=\nVERSION_ID=5.0",
		{"linuxmint", "debian", "22"}:     "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"22\"\n",
	} {
		if got := parseRelease(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestNamesAreCompletedFromTheHostsFile(t *testing.T) {
	const hosts = "127.0.0.1 localhost\n# 10.0.0.9 web-01.commented.example web-01\n127.0.1.1\tweb-01.dc1.example\tweb-01 # the host\n10.0.0.2 other.example db-01\n"
	for name, want := range map[string]names{
		"web-01":           {"web-01", "web-01.dc1.example", "dc1.example"},
		"db-01":            {"db-01", "db-01", ""}, // an alias of a host of another name
		"app.site.example": {"app", "app.site.example", "site.example"},
		"":                 {},
	} {
		if got := namesOf(name, hosts); got != want {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
}

func FuzzRelease(f *testing.F) {
	if data, err := os.ReadFile("/etc/os-release"); err == nil {
		f.Add(string(data))
	}
	f.Add("ID=\"\nID='\nVERSION_ID=\"\\\"\nID_LIKE=\"x  suse\"")
	f.Fuzz(func(t *testing.T, text string) {
		if r := parseRelease(text); r.family == "" && r.id != "" {
			t.Errorf("%q: %+v", text, r)
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("web-01", "127.0.1.1 web-01.example web-01")
	f.Fuzz(func(t *testing.T, name, hosts string) {
		if n := namesOf(name, hosts); n.fqdn != name && !strings.HasPrefix(n.fqdn, name+".") {
			t.Errorf("%q became %+v", name, n)
		}
	})
}

func BenchmarkCollect(b *testing.B) {
	for b.Loop() {
		collect(b, nil)
	}
}
