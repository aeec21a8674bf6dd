package mask_test

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/mask"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func TestMasksOfSeveralSettingsTogetherHideSecretsThatArePartOfEachOther(t *testing.T) {
	args := func(text string) map[string]any {
		return map[string]any{"list": []any{int64(1), map[string]any{"text": text}}}
	}
	long, short := mask.OfArgs(args("<1>"), args("hunter2-hunter3")), mask.OfArgs(args("<2>"), args("r2-hun"))
	if none := mask.OfArgs(args("same"), args("same")); none != nil {
		t.Errorf("a mask of arguments without secrets: %v", none)
	}
	for _, m := range []*mask.Mask{long.With(short), short.With(long), long.With(short).With(long), short.With(nil).With(long)} {
		if got := m.Result(wire.Result{Data: "a hunter2-hunter3, an r2-hun"}).Data; got != "a <1>, an <2>" {
			t.Errorf("%q", got)
		}
	}
}

func of(plain ...string) *mask.Mask {
	var secrets []module.Secret
	for i, p := range plain {
		secrets = append(secrets, module.Secret{Plain: p, Shown: fmt.Sprintf("<%d>", i+1)})
	}
	return mask.New(secrets)
}

// A secret in a file often ends in a line break, which what uses it does not print.
func TestASecretIsFoundWithoutTheSpaceAroundIt(t *testing.T) {
	if got := of("\thunter2-hunter3\n").Text("a hunter2-hunter3."); got != "a <1>." {
		t.Errorf("%q", got)
	}
}

func TestSecretsAreReplacedInTheKeysOfMaps(t *testing.T) {
	data := map[string]any{"hunter2": []any{map[string]any{"a hunter2": []byte("x hunter2")}, "hunter2", int64(2), nil}}
	want := map[string]any{"<1>": []any{map[string]any{"a <1>": []byte("x <1>")}, "<1>", int64(2), nil}}
	if got := of("hunter2").Result(wire.Result{Data: data, Error: "not hunter2"}); !reflect.DeepEqual(got.Data, want) || got.Error != "not <1>" {
		t.Errorf("%+v", got)
	}
}

func TestOfSecretsThatBeginAlikeTheLongestIsReplaced(t *testing.T) {
	for _, m := range []*mask.Mask{of("hunter2", "hunter2-longer", "hunter2-long"), of("hunter2").With(of("<>", "hunter2-longer").With(of("<>", "<>", "hunter2-long")))} {
		if got := m.Text("hunter2-longer hunter2-longe hunter2-lon"); got != "<2> <3>e <1>-lon" {
			t.Errorf("%q", got)
		}
	}
}

func TestTheSecretsOfSettingsAreMasked(t *testing.T) {
	n, ok := strictyaml.FromSecret("s", map[string]any{"a": []any{"<a>", "open"}, "b": map[string]any{"c": "<c>"}}, map[string]any{"a": []any{"alpha-secret", "open"}, "b": map[string]any{"c": int64(12345678)}})
	if !ok {
		t.Fatal("not alike")
	}
	m := mask.Of(n)
	if got := m.Text("alpha-secret open 12345678"); got != "<a> open <c>" {
		t.Errorf("%q", got)
	}
	if !m.Has([]byte("x12345678x")) || m.Has([]byte("open")) {
		t.Error("Has")
	}
}

const key = "-----BEGIN KEY-----\nMIIE\"vQIB'ADANBg<kq>hkiG9w0B\\AQEFAASCBKcwggSjAgEA$AoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4`/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\n-----END KEY-----\n"

// The forms are those of programs, not of this package.
func TestTheFormsOfASecretAreMasked(t *testing.T) {
	for _, secret := range []string{key, "pass word's \"x\"", "x7%K", "abc", " abc\t", "\tx7%K"} {
		m, trimmed := of(secret), strings.TrimSpace(secret)
		html := strings.NewReplacer("<", `\u003c`, ">", `\u003e`)
		inJSON := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(trimmed)
		for name, text := range map[string]string{
			"plain":       trimmed,
			"JSON":        inJSON,
			"JSON of Go":  html.Replace(inJSON),
			"shell":       strings.ReplaceAll(trimmed, "'", `'\''`),
			"quotes":      strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(trimmed),
			"base64":      base64.RawStdEncoding.EncodeToString([]byte(trimmed)),
			"file":        base64.RawStdEncoding.EncodeToString([]byte(secret)),
			"echo":        base64.RawStdEncoding.EncodeToString([]byte(trimmed + "\n")),
			"of the URL":  base64.RawURLEncoding.EncodeToString([]byte(trimmed)),
			"other bytes": base64.RawURLEncoding.EncodeToString([]byte("\xff\xfe\xfd" + trimmed)),
		} {
			got := m.Text("[" + text + "]")
			if name == "other bytes" {
				got = strings.Replace(got, text[:4], "", 1)
				if len(trimmed) < 5 { // of its base64 less is left than is masked
					continue
				}
				if !strings.HasPrefix(got, "[<1>") || len(got) > len("[<1>]")+2 {
					t.Errorf("%s of %q: %q", name, secret, got)
				}
				continue
			}
			if got != "[<1>]" || !m.Has([]byte(text)) {
				t.Errorf("%s of %q: %q", name, secret, got)
			}
		}
		for before := range 3 { // user:password in a header
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", before) + ":" + trimmed + ":x"))
			if got := m.Text(text); len(secret) > 6 && (!strings.Contains(got, "<1>") || len(got) > len("<1>")+10) {
				t.Errorf("within base64, %d before: %q", before, got)
			}
		}
	}
	wrapped := base64.StdEncoding.EncodeToString([]byte(key))
	for i := 76; i < len(wrapped); i += 77 {
		wrapped = wrapped[:i] + "\n" + wrapped[i:]
	}
	for line := range strings.SplitSeq(of(key).Text(wrapped), "\n") {
		if line != "<1>" && line != "<1>=" && line != "<1>==" {
			t.Errorf("a line of base64 is %q", line)
		}
	}
}

func TestShortSecretsAreMaskedUnlessTheyAreCommonWords(t *testing.T) {
	for secret, want := range map[string]string{
		"x7Q": "is <1>", "4711": "is <1>", "kUx!9": "is <1>", // without a meaning
		"true": "is true", "Root": "is Root", "bash": "is bash", "Call": "is Call", "no": "is no", "ab": "is ab", "": "is ", " ab ": "is  ab ",
		"rooted": "is <1>", "8443": "is <1>",
	} {
		if got := of(secret).Text("is " + secret); got != want {
			t.Errorf("%q: %q, want %q", secret, got, want)
		}
	}
	if of("true") != nil || of("true").Has([]byte("true")) {
		t.Error("a mask of a common word")
	}
}

// The secrets of a mask go to a function, which may make a mask of them.
func TestAMaskOfTheSecretsOfAMaskIsTheSame(t *testing.T) {
	m := of(key, "pass word's \"x\"")
	if again := mask.New(m.Secrets()); len(again.Secrets()) != len(m.Secrets()) {
		t.Errorf("%d secrets, then %d", len(m.Secrets()), len(again.Secrets()))
	}
	if both := m.With(mask.New(m.Secrets())); len(both.Secrets()) != len(m.Secrets()) {
		t.Errorf("%d secrets, then %d", len(m.Secrets()), len(both.Secrets()))
	}
}

func TestANumberIsMaskedInEachFormThatPrintsIt(t *testing.T) {
	for number, texts := range map[float64][]string{
		31415926.5: {"31415926.5", "3.14159265e+07"},
		31415.5:    {"31415.5", "3.14155e+04"},
	} {
		m := mask.OfArgs(map[string]any{"n": "<n>"}, map[string]any{"n": number})
		for _, text := range texts {
			if got := m.Text("pin " + text + "!"); got != "pin <n>!" {
				t.Errorf("%s is printed as %q", text, got)
			}
		}
	}
}
