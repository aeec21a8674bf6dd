package wire_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

var heartbeat = regexp.MustCompile(`^[A-Z2-7]{0,32}( [0-9]{1,35})?$`)

// FuzzDecodeHeartbeat has the payload and one header of a message, which is not set if its name is empty.
func FuzzDecodeHeartbeat(f *testing.F) {
	f.Add("", []byte{})
	f.Add("", wire.Beat{Instance: wire.NewInstance(), Every: wire.MinHeartbeat}.Encode())
	f.Add("Nats-Request-Info", wire.Beat{Instance: wire.NewInstance(), Every: wire.MaxHeartbeat}.Encode())
	f.Add("", []byte("AAAA 30"))
	f.Add("", []byte("AAAA 601"))
	f.Add("", []byte("AAAA  333"))
	f.Add("Nats-Service-Error", []byte("no such key"))
	f.Add("", []byte(`{"type":"io.nats.jetstream.api.v1.pub_ack_response"}`))
	f.Add("Zester-Heartbeat-Seconds", []byte{})
	f.Fuzz(func(t *testing.T, header string, data []byte) {
		msg := &nats.Msg{Subject: wire.Heartbeat("p"), Data: data}
		if header != "" {
			msg.Header = nats.Header{header: {"x"}}
		}
		b, ok := wire.DecodeHeartbeat(msg)
		switch {
		case !ok:
			return
		case header != "" && header != "Nats-Request-Info":
			t.Errorf("accepted with the header %q", header)
		case !heartbeat.Match(data) || b.Every < wire.MinHeartbeat || b.Every > wire.MaxHeartbeat:
			t.Errorf("%q accepted as the heartbeat %+v", data, b)
		}
		if again, ok := wire.DecodeHeartbeat(&nats.Msg{Data: b.Encode()}); !ok || again != b {
			t.Errorf("%+v is read as %+v, %v", b, again, ok)
		}
	})
}

func TestAHeartbeatContainsItsIntervalUnlessItIsTheShortest(t *testing.T) {
	for payload, want := range map[string]wire.Beat{
		"":         {Every: 30 * time.Second},
		"AAAA":     {Instance: "AAAA", Every: 30 * time.Second}, // as earlier versions send it
		"AAAA 31":  {Instance: "AAAA", Every: 31 * time.Second},
		"AAAA 600": {Instance: "AAAA", Every: 10 * time.Minute},
	} {
		if got, ok := wire.DecodeHeartbeat(&nats.Msg{Data: []byte(payload)}); !ok || got != want || string(got.Encode()) != payload {
			t.Errorf("%q: %+v, %v, encoded %q", payload, got, ok, got.Encode())
		}
	}
	for _, payload := range []string{strings.Repeat("A", 33), strings.Repeat("A", 1<<20), "AAAA " + strings.Repeat("0", 40) + "31", "AAAA 0", "AAAA 29", "AAAA 30", "AAAA 601", "AAAA -31", "AAAA 31 ", "AAAA 31.5", "AAAA x", "aaaa 31", " "} {
		if got, ok := wire.DecodeHeartbeat(&nats.Msg{Data: []byte(payload)}); ok {
			t.Errorf("%.60q is read as %+v", payload, got)
		}
	}
}

// FuzzDecodeInterval has the header of a master's answer.
func FuzzDecodeInterval(f *testing.F) {
	for _, text := range []string{"", "333", "86400", "-1", "4294967296", "1e3", "0x10", " 40"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		every, err := wire.DecodeInterval(&nats.Msg{Subject: "_INBOX.p.x", Header: nats.Header{"Zester-Heartbeat-Seconds": {text}}})
		if err == nil && (every < wire.MinHeartbeat || every > wire.MaxHeartbeat) {
			t.Errorf("an interval of %v", every)
		}
	})
}

func TestAnAnnouncedIntervalIsBounded(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1": 30 * time.Second, "30": 30 * time.Second, "333": 333 * time.Second, "601": 10 * time.Minute, "4294967295": 10 * time.Minute,
		"0": 0, "-5": 0, "4294967296": 0, "": 0, "1h": 0,
	} {
		got, err := wire.DecodeInterval(&nats.Msg{Subject: "_INBOX.p.x", Header: nats.Header{"Zester-Heartbeat-Seconds": {text}}})
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got, err := wire.DecodeInterval(wire.NewInterval(333 * time.Second)); err != nil || got != 333*time.Second {
		t.Errorf("333 s are read as %v, %v", got, err)
	}
}

// The answer to a heartbeat goes wherever the peel has it sent.
func TestAnAnnouncedIntervalIsNoOtherMessage(t *testing.T) {
	answer := wire.NewInterval(wire.MaxHeartbeat)
	answer.Data = []byte{0x80} // an empty message, if the header is not looked at
	if err := wire.Decode(answer, &struct{}{}); !errors.Is(err, wire.ErrForged) {
		t.Errorf("decoded: %v", err)
	}
	if _, ok := wire.DecodeHeartbeat(wire.NewInterval(wire.MaxHeartbeat)); ok {
		t.Error("it is a heartbeat")
	}
}
