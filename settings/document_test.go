package settings_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// document makes one with a single setting, which tells documents apart.
func document(t testing.TB, peel target.PeelID, generation uint64, value any) *settings.Document {
	t.Helper()
	raw, err := canon.Marshal(map[string]any{"value": value})
	if err != nil {
		t.Fatal(err)
	}
	return &settings.Document{
		V: settings.Version, Peel: peel, Commit: "0123456789abcdef0123456789abcdef01234567", Generation: generation,
		Digest: settings.DigestOf(raw), Settings: raw,
		Origins: map[string]settings.Origin{"check": {File: "settings/a.yaml", Line: 3, Commit: "01", Author: "A <a@example.com>", Time: time.Unix(1, 0).UTC()}},
	}
}

func encode(t testing.TB, d *settings.Document) []byte {
	t.Helper()
	data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDocumentSurvivesTheWay(t *testing.T) {
	for _, v := range []any{int64(3), int64(0), int64(127), int64(300), int64(-1), 1.5, "x", true, nil, []any{int64(1)}, map[string]any{"k": int64(7)}} {
		d := document(t, "web-01", 7, v)
		got, err := settings.Decode(encode(t, d), "web-01")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range got.Origins {
			if !o.Time.Equal(d.Origins["check"].Time) {
				t.Errorf("time %v", o.Time)
			}
		}
		got.Origins, d.Origins = nil, nil
		if !reflect.DeepEqual(got, d) {
			t.Errorf("%+v\nwant %+v", got, d)
		}
		values, err := got.Values()
		if err != nil || !reflect.DeepEqual(values["value"], v) {
			t.Errorf("%#v came back as %#v, %v", v, values["value"], err)
		}
	}
}

func TestDocumentIsRefused(t *testing.T) {
	good := encode(t, document(t, "web-01", 7, "original"))
	change := func(f func(*settings.Document)) []byte {
		d := document(t, "web-01", 7, "v")
		f(d)
		return encode(t, d)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"of another peel":         {change(func(d *settings.Document) { d.Peel = "web-02" }), `cannot read the settings of web-01: they are for "web-02"`},
		"of a later schema":       {change(func(d *settings.Document) { d.V = settings.Version + 1 }), "schema version 3, this build knows up to 2"},
		"with another digest":     {change(func(d *settings.Document) { d.Digest = settings.DigestOf(nil) }), "the digest does not match"},
		"with changed settings":   {bytes.Replace(good, []byte("original"), []byte("modified"), 1), "the digest does not match"},
		"cut short":               {good[:len(good)-1], "cannot decode settings.Document"},
		"too large":               {make([]byte, settings.MaxDocument+1), "786433 bytes, the limit is 786432"},
		"an answer of the server": {[]byte(`{"error":{"code":404}}`), "cannot decode settings.Document"},
	} {
		if _, err := settings.Decode(c.data, "web-01"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestDocumentWithoutVersionAndWithUnknownFieldsIsRead(t *testing.T) {
	raw := canon.Raw{0x80}
	data, err := canon.Marshal(map[string]any{"peel": "web-01", "digest": settings.DigestOf(raw), "settings": raw, "later": []any{1}})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := settings.Decode(data, "web-01"); err != nil || d.V != 0 || d.Generation != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestDocumentOverTheLimitIsNotEncoded(t *testing.T) {
	d := document(t, "web-01", 1, strings.Repeat("x", settings.MaxDocument))
	if _, err := d.Encode(); err == nil || !strings.Contains(err.Error(), "settings of web-01 take") {
		t.Error(err)
	}
}

func TestGenerationGrowsAlsoWhenTheClockStepsBack(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	for _, c := range []struct {
		last uint64
		now  time.Time
		want uint64
	}{{0, at, 1_000_000}, {999_999, at, 1_000_000}, {1_000_000, at, 1_000_001}, {2_000_000, at, 2_000_001}, {0, time.Unix(-5, 0), 1}} {
		if got := settings.NextGeneration(c.last, c.now); got != c.want {
			t.Errorf("after %d at %v: %d, want %d", c.last, c.now, got, c.want)
		}
	}
}

// sealed makes a document that holds a secret for a key pair.
func sealed(t testing.TB, peel target.PeelID) (*settings.Document, nkeys.KeyPair) {
	t.Helper()
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	to, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := settings.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := canon.Marshal(map[string]any{"value": "hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	d := document(t, peel, 7, "•••0123456789abcdef")
	if err := sealer.Seal(d, plain, settings.Key(to)); err != nil {
		t.Fatal(err)
	}
	return d, pair
}

func TestASealedDocumentIsOpenedByItsPeelAlone(t *testing.T) {
	d, pair := sealed(t, "web-01")
	data := encode(t, d)
	if bytes.Contains(data, []byte("hunter2")) {
		t.Error("the secret is in the document")
	}
	got, err := settings.Decode(data, "web-01")
	if err != nil {
		t.Fatal(err)
	}
	if got.V != settings.Version || got.SealedTo() != d.Sealed.To || document(t, "web-01", 1, 1).SealedTo() != "" {
		t.Errorf("%+v", got)
	}
	raw, err := got.Open(pair)
	var values map[string]any
	if err == nil {
		err = canon.Unmarshal(raw, &values)
	}
	if err != nil || values["value"] != "hunter2" {
		t.Errorf("%v, %v", values, err)
	}
	other, stranger := sealed(t, "web-02")
	for name, c := range map[string]struct {
		change func(*settings.Document)
		pair   nkeys.KeyPair
		want   string
	}{
		"by another key":           {func(*settings.Document) {}, stranger, "they are sealed to the key " + string(d.Sealed.To)},
		"with a changed box":       {func(d *settings.Document) { d.Sealed.Box[50] ^= 1 }, pair, "cannot open the sealed settings of web-01"},
		"with the box of another":  {func(d *settings.Document) { d.Sealed.Box = other.Sealed.Box }, pair, "cannot open"},
		"with an empty box":        {func(d *settings.Document) { d.Sealed.Box = nil }, pair, "cannot open"},
		"with other settings":      {func(d *settings.Document) { d.Digest = settings.DigestOf(nil) }, pair, "belong to another document"},
		"in a document of another": {func(d *settings.Document) { d.Peel = "web-02" }, pair, "belong to another document"},
	} {
		changed, err := settings.Decode(data, "web-01")
		if err != nil {
			t.Fatal(err)
		}
		c.change(changed)
		if _, err := changed.Open(c.pair); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("opened %s: %v", name, err)
		}
	}
	for _, c := range []struct {
		change func(*settings.Document)
		want   string
	}{
		{func(d *settings.Document) { d.V = settings.OpenVersion }, "schema version 1 with sealed settings"},
		{func(d *settings.Document) { d.Sealed.To = "X" }, `cannot use "X" as the key of a peel`},
		{func(d *settings.Document) { d.Sealed.From = settings.Key(strings.Repeat("A", settings.KeySize)) }, "as the key of a peel"},
	} {
		changed, _ := sealed(t, "web-01")
		c.change(changed)
		if _, err := settings.Decode(encode(t, changed), "web-01"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	secret, pair := sealed(f, "web-01")
	f.Add(encode(f, secret))
	f.Add(encode(f, document(f, "web-01", 7, "v")))
	f.Add([]byte{0x81, 0xa1, 'v', 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := settings.Decode(data, "web-01")
		if err != nil {
			return
		}
		if d.Sealed != nil {
			_, _ = d.Open(pair)
		}
		if d.Peel != "web-01" || settings.DigestOf(d.Settings) != d.Digest {
			t.Fatalf("accepted %+v", d)
		}
		if again, err := d.Encode(); err == nil {
			if _, err := settings.Decode(again, "web-01"); err != nil {
				t.Fatalf("encoded again: %v", err)
			}
		}
	})
}
