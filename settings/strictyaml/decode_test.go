package strictyaml

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the messages in testdata anew")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

type level string

func (l *level) UnmarshalText(b []byte) error {
	if string(b) != "low" && string(b) != "high" {
		return fmt.Errorf("%q is no level; write low or high", b)
	}
	*l = level(b)
	return nil
}

type config struct {
	Name     string            `yaml:"name"`
	On       bool              `yaml:"on"`
	Count    int               `yaml:"count"`
	Small    int8              `yaml:"small"`
	Port     uint16            `yaml:"port"`
	Share    float64           `yaml:"share"`
	Interval time.Duration     `yaml:"interval"`
	Level    level             `yaml:"level"`
	Tags     []string          `yaml:"tags"`
	Labels   map[string]string `yaml:"labels"`
	Inner    inner             `yaml:"inner"`
	Maybe    *inner            `yaml:"maybe"`
	Waves    []inner           `yaml:"waves"`
	Any      any               `yaml:"any"`
	Raw      *Node             `yaml:"raw"`
	Hidden   string
}

type inner struct {
	Batch int `yaml:"batch"`
}

func TestDecodeFillsAStructAndKeepsDefaults(t *testing.T) {
	n := parse(t, `
on: true
count: 300
small: -128
port: 65535
share: 1
interval: 1d12h
level: high
tags: [a, b]
labels: {x: "1"}
inner: {batch: 2}
maybe: {batch: 3}
waves: [{batch: 1}, {batch: 4}]
any: {k: [1, null]}
raw: [q]
`)
	got := config{Name: "default", Hidden: "h"}
	if err := Decode(n, &got); err != nil {
		t.Fatal(err)
	}
	if got.Raw != n.Get("raw") {
		t.Error("raw is not the node itself")
	}
	got.Raw = nil
	want := config{
		Name: "default", On: true, Count: 300, Small: -128, Port: 65535, Share: 1, Interval: 36 * time.Hour, Level: "high",
		Tags: []string{"a", "b"}, Labels: map[string]string{"x": "1"}, Inner: inner{2}, Maybe: &inner{3},
		Waves: []inner{{1}, {4}}, Any: map[string]any{"k": []any{int64(1), nil}}, Hidden: "h",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecodeRefusesWithPathPositionAndMend(t *testing.T) {
	for text, want := range map[string]string{
		"intervall: 1h":                   `f.yaml:1:1: intervall: unknown key; did you mean "interval"?`,
		"hidden: x":                       `f.yaml:1:1: hidden: unknown key; the nearest of 15 keys are inner, name, on`,
		"interval: 30":                    `f.yaml:1:11: interval: must be a duration like 90s, 5m or 1d12h, not a whole number (30); write 30s for seconds, 30m for minutes`,
		"interval: \"30\"":                `f.yaml:1:11: interval: cannot parse duration "30": 30 has no unit; write 30s for seconds, 30m for minutes`,
		"interval: -5m":                   `f.yaml:1:11: interval: cannot parse duration "-5m"; write it like 90s, 5m or 1d12h`,
		"on: yes":                         `f.yaml:1:5: on: must be true or false, not a string (yes); write true`,
		"on: Off":                         `f.yaml:1:5: on: must be true or false, not a string (Off); write false`,
		`on: "true"`:                      `f.yaml:1:5: on: must be true or false, not a string (true); write true`,
		"on: 1":                           `f.yaml:1:5: on: must be true or false, not a whole number (1)`,
		"name: 30":                        `f.yaml:1:7: name: must be a string, not a whole number (30); put it in quotes`,
		"name: [a]":                       `f.yaml:1:7: name: must be a string, not a list`,
		`count: "3"`:                      `f.yaml:1:8: count: must be a whole number, not a string (3); write it without quotes`,
		"count: 1.5":                      `f.yaml:1:8: count: must be a whole number, not a number (1.5)`,
		"small: 128":                      `f.yaml:1:8: small: 128 is out of range; the largest is 127`,
		"port: -1":                        `f.yaml:1:7: port: must not be negative, but is -1`,
		"port: 65536":                     `f.yaml:1:7: port: 65536 is out of range; the largest is 65535`,
		"share: x":                        `f.yaml:1:8: share: must be a number, not a string (x)`,
		"level: mid":                      `f.yaml:1:8: level: "mid" is no level; write low or high`,
		"level: 3":                        `f.yaml:1:8: level: must be a string, not a whole number (3); put it in quotes`,
		"tags: a":                         `f.yaml:1:7: tags: must be a list, not a string (a)`,
		"tags: [a, ]\n":                   ``,
		"tags: [a, ~]":                    `f.yaml:1:11: tags[1]: must not be null`,
		"tags:\n- a\n- 1":                 `f.yaml:3:3: tags[1]: must be a string, not a whole number (1); put it in quotes`,
		"labels: {a: ~}":                  `f.yaml:1:13: labels.a: must not be null`,
		"inner: {batch: x}":               `f.yaml:1:16: inner.batch: must be a whole number, not a string (x)`,
		"waves:\n- batch: 1\n- batsh: 1":  `f.yaml:3:3: waves[1].batsh: unknown key; did you mean "batch"?`,
		"inner: {size: 1}":                `f.yaml:1:9: inner.size: unknown key; the keys are batch`,
		"inner: 3":                        `f.yaml:1:8: inner: must be a map, not a whole number (3)`,
		"[a]":                             `f.yaml:1:1: must be a map, not a list`,
		"a:1":                             `f.yaml:1:1: must be a map, not a string (a:1); write a blank after the colon`,
		"zzz: 1\nname: 1":                 "f.yaml:1:1: zzz: unknown key; the nearest of 15 keys are on, any, raw\nf.yaml:2:7: name: must be a string, not a whole number (1); put it in quotes",
		"name: ~\ninterval: 0\ninner: ~ ": ``,
	} {
		var c config
		err := Decode(parse(t, text), &c)
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1d12h": 36 * time.Hour, "1w": 168 * time.Hour, "1.5d": 36 * time.Hour, "1w2d3h4m5s6ms": 219*time.Hour + 4*time.Minute + 5*time.Second + 6*time.Millisecond,
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, ".5h": 30 * time.Minute, "10µs": 10 * time.Microsecond, "106751d": 106751 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "-1h", "+1h", "1", "d", "1dd", "1x", "1h 30m", "300y", "106752d", "15251w", "99999999999999999999d", "1.2.3d", "1e3s",
		"106751d24h", "9999999999h", ".d", "1h-5m", "١h",
	} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q gave %v", text, got)
		}
	}
}

func TestSuggestNamesTheNearestKnownName(t *testing.T) {
	known := []string{"interval", "module", "splay", "cron", "maxrunning", "at", "command", "cwd"}
	for name, want := range map[string]string{
		"intervall": "interval", "Module": "module", "modul": "module", "slpay": "splay", "corn": "cron", "max_running": "maxrunning",
		"cmd": "command", "cdw": "cwd", "max": "maxrunning", "cm": "",
		"timezone": "", "x": "", "": "", strings.Repeat("interval", 100): "",
	} {
		got := Suggest(name, known)
		if want != "" {
			want = fmt.Sprintf("; did you mean %q?", want)
		}
		if got != want {
			t.Errorf("%.20q: got %q", name, got)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"1d12h", "1w", "-1h", "300y", "0", "1.5d", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err == nil && d < 0 {
			t.Errorf("%q is %v", s, d)
		}
		if std, stdErr := time.ParseDuration(s); stdErr == nil && err == nil && std != d {
			t.Errorf("%q: got %v, Go has %v", s, d, std)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	n, err := Parse("f", []byte("name: x\non: true\ninterval: 5m\ntags: [a, b]\ninner: {batch: 3}\n"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var c config
		if err := Decode(n, &c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFromValue(b *testing.B) {
	v := map[string]any{"marker": int64(1), "schedule": map[string]any{
		"report": map[string]any{"cron": "17 3 * * *", "splay": "1h", "module": "test.ping", "return_job": true},
		"check":  map[string]any{"interval": "6h", "splay": "10m", "module": "test.echo", "args": map[string]any{"text": "all is well"}},
	}}
	b.ReportAllocs()
	for b.Loop() {
		FromValue("settings", v)
	}
}
