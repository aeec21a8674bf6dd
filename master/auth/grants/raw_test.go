package grants_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A rawClient speaks the protocol of the bus by itself, so that no library keeps it from sending what a server must refuse.
type rawClient struct {
	t    *testing.T
	conn net.Conn

	mu       sync.Mutex
	refused  int      // violations of permissions
	received []string // subjects of messages, which are those of requests: see request
}

const rawInbox = "raw." // prefix of the subjects on which replies are waited for, below the inbox of the role

// dialRaw connects with a credential of a role. The error is what the server says instead of letting it in.
func dialRaw(t *testing.T, b *natstest.Bus, role grants.Role, name string) (*rawClient, error) {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	jwt, err := b.Keys.Issue(role, name, key.Public(), 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := b.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ Nonce string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatal(err)
	}
	signature, err := key.Sign([]byte(info.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	connect, err := json.Marshal(map[string]any{
		"jwt": jwt, "sig": base64.RawURLEncoding.EncodeToString(signature), "headers": true, "protocol": 1, "name": name,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t: t, conn: conn}
	c.send("CONNECT %s\r\nPING\r\n", connect)
	for {
		switch line, err = r.ReadString('\n'); {
		case err != nil:
			return nil, err
		case strings.HasPrefix(line, "-ERR"):
			return nil, fmt.Errorf("%s", strings.TrimSpace(line))
		case strings.HasPrefix(line, "PONG"):
			go c.read(r)
			c.send("SUB %s.%s> 1\r\n", role.Inbox(name), rawInbox)
			return c, nil
		}
	}
}

func (c *rawClient) send(format string, args ...any) {
	if _, err := fmt.Fprintf(c.conn, format, args...); err != nil {
		c.t.Errorf("the server has closed the connection: %v", err)
	}
}

// read notes what the server sends until the connection ends. It skips the payloads of messages, none of which has a line that
// looks like a command.
func (c *rawClient) read(r *bufio.Reader) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		f := strings.Fields(line)
		c.mu.Lock()
		switch {
		case strings.HasPrefix(line, "PING"):
			go c.send("PONG\r\n")
		case strings.HasPrefix(line, "-ERR"):
			c.refused++
		case len(f) > 2 && (f[0] == "MSG" || f[0] == "HMSG"):
			c.received = append(c.received, f[1])
		}
		c.mu.Unlock()
	}
}

// publish sends a message with headers, and waits for a reply on a subject if it is not empty.
func (c *rawClient) publish(subject, reply, header, body string) {
	if header == "" {
		c.send("PUB %s %s %d\r\n%s\r\n", subject, reply, len(body), body)
		return
	}
	header = "NATS/1.0\r\n" + header + "\r\n\r\n"
	c.send("HPUB %s %s %d %d\r\n%s%s\r\n", subject, reply, len(header), len(header)+len(body), header, body)
}

// streamVerbs are those of the API of streams, with the name of a stream after them, and after some a name of a consumer or a subject.
var streamVerbs = []string{
	"STREAM.CREATE.S", "STREAM.UPDATE.S", "STREAM.DELETE.S", "STREAM.PURGE.S", "STREAM.INFO.S", "STREAM.SNAPSHOT.S", "STREAM.RESTORE.S",
	"STREAM.MSG.GET.S", "STREAM.MSG.DELETE.S", "STREAM.PEER.REMOVE.S", "STREAM.LEADER.STEPDOWN.S",
	"CONSUMER.CREATE.S", "CONSUMER.CREATE.S.raw", "CONSUMER.CREATE.S.raw.>", "CONSUMER.DURABLE.CREATE.S.raw", "CONSUMER.LIST.S",
	"CONSUMER.NAMES.S", "CONSUMER.INFO.S.raw", "CONSUMER.DELETE.S.raw", "CONSUMER.MSG.NEXT.S.raw", "CONSUMER.PAUSE.S.raw",
	"CONSUMER.UNPIN.S.raw", "CONSUMER.RESET.S.raw", "CONSUMER.LEADER.STEPDOWN.S.raw", "DIRECT.GET.S", "DIRECT.GET.S.zester.audit.job.dispatch.ann",
}

// streamBodies are requests that each do harm with one of streamVerbs.
func streamBodies(stream string, config jetstream.StreamConfig) []string {
	config.MaxMsgs = 1
	smaller, _ := json.Marshal(config)
	config.DenyPurge, config.DenyDelete, config.Sources = false, false, []*jetstream.StreamSource{{Name: "facts"}}
	changed, _ := json.Marshal(config)
	return []string{
		"", string(smaller), string(changed), fmt.Sprintf(`{"config":%s,"state":{"messages":0}}`, changed), `{"seq":1}`, `{"seq":1,"no_erase":true}`,
		`{"last_by_subj":">"}`, `{"batch":1}`, `{"deliver_subject":"zester.cmd.peel-b"}`,
		fmt.Sprintf(`{"stream_name":%q,"config":{"ack_policy":"none","deliver_policy":"all"},"action":"create"}`, stream),
		fmt.Sprintf(`{"stream_name":%q,"config":{"durable_name":"raw","ack_policy":"none","deliver_subject":"zester.cmd.peel-b"}}`, stream),
	}
}

// thieves are streams that take what another holds, or what is to go into it.
var thieves = map[string]string{
	"STREAM.CREATE.mirror":    `{"name":"mirror","storage":"memory","mirror":{"name":"S"}}`,
	"STREAM.CREATE.source":    `{"name":"source","storage":"memory","sources":[{"name":"S"}]}`,
	"STREAM.CREATE.subjects":  `{"name":"subjects","storage":"memory","subjects":["zester.audit.x.>","$KV.>"]}`,
	"STREAM.CREATE.republish": `{"name":"republish","storage":"memory","subjects":["raw"],"republish":{"src":"raw","dest":"zester.audit.raw"}}`,
}

// TestNoProgramOfOthersGetsFurtherThanTheMatrix: with the credential of each role but the masters', every request about each
// stream and messages on all subjects of others change nothing, reach nobody, and get no reply that the matrix does not allow.
func TestNoProgramOfOthersGetsFurtherThanTheMatrix(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		fillStreams(t, js)
		heard := victims(t, b)
		before := whole(t, js)
		for role, name := range actors {
			c, err := dialRaw(t, b, role, name)
			if role == grants.RoleSite {
				if err == nil {
					t.Error("a copy of a site's credential is good for a client")
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", role, err)
			}
			c.listen(role)
			if role != grants.RoleMaster {
				c.attack(role, name, before)
			}
		}
		synctest.Wait()
		time.Sleep(time.Second) // before the shortest time of a message is over
		after := whole(t, js)
		for name := range maps.Keys(before) {
			if is, was := after[name], before[name]; !reflect.DeepEqual(is, was) {
				t.Errorf("%s is %+v, and was %+v", name, is, was)
			}
		}
		if len(after) != len(before) {
			t.Errorf("there are the streams %v", slices.Sorted(maps.Keys(after)))
		}
		for _, subject := range heard() {
			t.Errorf("somebody got a message on %s", subject)
		}
	})
}

// TestNoProgramWithTheCredentialOfAMasterTakesFromTheAuditLog: a master's credential adds to the log and reads it, and nothing else.
func TestNoProgramWithTheCredentialOfAMasterTakesFromTheAuditLog(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		fillStreams(t, js)
		before := whole(t, js)["audit"]
		c, err := dialRaw(t, b, grants.RoleMaster, "m1")
		if err != nil {
			t.Fatal(err)
		}
		for _, verb := range streamVerbs {
			for _, body := range streamBodies("audit", before.config) {
				c.publish("$JS.API."+strings.Replace(verb, ".S", ".audit", 1), "", "", body)
			}
		}
		for verb, body := range thieves {
			c.publish("$JS.API."+verb, "", "", strings.ReplaceAll(body, `"S"`, `"audit"`))
		}
		for _, header := range []string{"Nats-Rollup: all", "Nats-Rollup: sub", "Nats-TTL: 1s", "KV-Operation: PURGE", "Nats-Expected-Last-Sequence: 0"} {
			c.publish("zester.audit.job.dispatch.ann", "", header, "x")
		}
		synctest.Wait()
		time.Sleep(time.Hour)
		after := whole(t, js)["audit"]
		if !reflect.DeepEqual(after.config, before.config) || after.first != before.first || after.messages != after.end {
			t.Errorf("the log is %+v, and was %+v", after, before)
		}
		s, err := js.Stream(t.Context(), "audit")
		if err != nil {
			t.Fatal(err)
		}
		if m, err := s.GetMsg(t.Context(), 1); err != nil || string(m.Data) != "{}" {
			t.Errorf("the first entry is %+v, %v", m, err)
		}
	})
}

// listen subscribes to what only others may hear. The server refuses each subscription.
func (c *rawClient) listen(role grants.Role) {
	c.t.Helper()
	subjects := []string{
		">", "*.>", "$SYS.>", "_INBOX.>", "_R_.>", grants.RoleMaster.Inbox("m2") + ".>", grants.RoleOperator.Inbox("bob") + ".>",
		grants.RolePeel.Inbox("peel-b") + ".>", grants.RoleAuditor.Inbox("zoe") + ".>",
	}
	if role != grants.RoleMaster {
		subjects = append(subjects, "zester.audit.>", "$KV.>", "$JS.>", "zester.cmd.peel-b", "zester.settings.peel-b", "zester.answer.>", "zester.answer.bob.>",
			"zester.dispatch.*", "zester.api.>", "zester.direct.>", "zester.coverage.>", "zester.sync.moved")
	}
	for i, subject := range subjects {
		for _, queue := range []string{"", "masters", "zester.masters"} {
			c.send("SUB %s %s %d%d\r\n", subject, queue, 2+i, len(queue))
		}
	}
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != 3*len(subjects) {
		c.t.Errorf("%s: %d of %d subscriptions are refused", role, c.refused, 3*len(subjects))
	}
	c.refused = 0
}

// attack sends all requests and messages, and checks the replies.
func (c *rawClient) attack(role grants.Role, name string, streams map[string]held) {
	c.t.Helper()
	sent, asked := 0, map[string]string{} // requests by the subject of their reply
	ask := func(subject, header, body string) {
		sent++
		reply := fmt.Sprintf("%s.%s%d", role.Inbox(name), rawInbox, sent)
		asked[reply] = subject
		c.publish(subject, reply, header, body)
	}
	for stream, h := range streams {
		for _, verb := range streamVerbs {
			for _, body := range streamBodies(stream, h.config) {
				ask("$JS.API."+strings.Replace(verb, ".S", "."+stream, 1), "", body)
			}
		}
		for verb, body := range thieves {
			ask("$JS.API."+verb, "", strings.ReplaceAll(body, `"S"`, fmt.Sprintf("%q", stream)))
		}
		if bucket, isBucket := strings.CutPrefix(stream, "KV_"); isBucket {
			for _, header := range []string{"", "KV-Operation: PURGE\r\nNats-Rollup: sub", "Nats-Rollup: all"} {
				ask(wire.KVSubject(bucket, other), header, "x")
			}
		}
	}
	for _, subject := range ofOthers {
		for _, header := range []string{"", "Nats-Rollup: all"} {
			ask(subject, header, "x")
		}
	}
	synctest.Wait()
	time.Sleep(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, reply := range c.received {
		if subject := asked[reply]; !mayAsk(role, subject) {
			c.t.Errorf("%s: a reply to %s", role, subject)
		}
	}
	if c.refused < sent/2 {
		c.t.Errorf("%s: %d of %d messages are refused", role, c.refused, sent)
	}
}

// mayAsk reports whether the verdicts of this package let a role ask a stream. The subject after the stream's name does not count.
func mayAsk(role grants.Role, subject string) bool {
	rest := strings.TrimPrefix(subject, "$JS.API.")
	for stream, verdicts := range stores {
		inspected := slices.ContainsFunc(inspects, func(below string) bool {
			below, _ = strings.CutSuffix(fmt.Sprintf(below, stream), ".c")
			return rest == below || rest == below+".raw"
		})
		if inspected && slices.Contains(observers, role) {
			return true
		}
		for allowed, roles := range verdicts {
			if (rest == allowed || strings.HasPrefix(rest, allowed+".")) && slices.Contains(roles, role) {
				return true
			}
		}
	}
	return false
}

// ofOthers are subjects on which nobody of actors but the master publishes.
var ofOthers = []string{
	"zester.audit.job.dispatch.ann", "zester.audit.x", "zester.coverage.1", "zester.cmd.peel-b", "zester.cmd.peel-a", "zester.settings.peel-b",
	"zester.stored." + string(jid) + ".peel-b", "zester.job." + string(jid) + ".return.peel-b", "zester.job." + string(jid) + ".cancel",
	"zester.job." + string(jid) + ".dispatch", "zester.job." + string(jid) + ".ack.peel-b", "zester.fact.peel-b", "zester.heartbeat.peel-b",
	"zester.state.peel-b", "zester.schedule.state.peel-b", "zester.settings.applied.peel-b", "zester.api.job.list.bob", "zester.dispatch.bob",
	"zester.direct.peel-b.bob", "zester.answer.bob.1.peel-b", "zester.sync.moved", "_INBOX_MASTER.m1.x.y", "_INBOX_MASTER.x",
	grants.RoleOperator.Inbox("bob") + ".x", grants.RolePeel.Inbox("peel-b") + ".x", grants.RoleAuditor.Inbox("zoe") + ".x",
	"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING", "$SYS.REQ.CLAIMS.UPDATE", "$JS.ACK.audit.raw.1.1.1.1.0", "$JS.FC.audit.raw.1", "_R_.x.y", "$SRV.PING",
}

// victims are a peel, a person, an auditor and another master, with all that they listen to. The result tells what they have heard.
func victims(t *testing.T, b *natstest.Bus) func() []string {
	t.Helper()
	var mu sync.Mutex
	var heard []string
	for _, v := range []struct {
		role     grants.Role
		name     string
		subjects []string
	}{
		{grants.RolePeel, "peel-b", []string{wire.Cmd("peel-b"), "zester.settings.peel-b", "zester.job.*.cancel", grants.RolePeel.Inbox("peel-b") + ".>"}},
		{grants.RoleOperator, "bob", []string{grants.RoleOperator.Inbox("bob") + ".>"}},
		{grants.RoleAuditor, "zoe", []string{grants.RoleAuditor.Inbox("zoe") + ".>"}},
		{grants.RoleMaster, "m2", []string{"zester.api.>", "zester.dispatch.*", "zester.sync.moved", grants.RoleMaster.Inbox("m2") + ".>"}},
	} {
		nc := b.Conn(t, v.role, v.name)
		for _, subject := range v.subjects {
			_, err := nc.Subscribe(subject, func(m *nats.Msg) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, v.name+": "+m.Subject)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(heard)
	}
}

// held is a stream as it is: what it holds, who reads it, and how it is configured.
type held struct {
	config               jetstream.StreamConfig
	messages, first, end uint64
	consumers            int
}

func whole(t *testing.T, js jetstream.JetStream) map[string]held {
	t.Helper()
	all := map[string]held{}
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		s := info.State
		all[info.Config.Name] = held{info.Config, s.Msgs, s.FirstSeq, s.LastSeq, s.Consumers}
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// fillStreams stores a message in the audit log and one in each bucket, and checks that the verdicts name each stream.
func fillStreams(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	subjects := []string{"zester.audit.job.dispatch.ann"}
	for stream := range maps.Keys(stores) {
		if bucket, isBucket := strings.CutPrefix(stream, "KV_"); isBucket {
			subjects = append(subjects, wire.KVSubject(bucket, other))
		}
	}
	for _, subject := range subjects {
		if _, err := js.Publish(t.Context(), subject, []byte("{}")); err != nil {
			t.Fatal(subject, err)
		}
	}
}
