//go:build linux

package peel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/content"
)

func TestAStateGetsItsContentFromTheBus(t *testing.T) {
	runStates(t, func(b *bench) {
		t := b.t
		dir := t.TempDir()
		motd, tool := filepath.Join(dir, "motd"), filepath.Join(dir, "tools", "deep", "tool")
		f, sealed := content.Seal([]byte("hello {{peel}}\n"), nil)
		script, sealedScript := content.Seal([]byte("#!/bin/sh\n"), nil)
		entry := func(f content.File, mode string) string {
			return fmt.Sprintf("{sha256: %s, size: %d, mode: '%s', blob: %s, key: %s}", f.SHA256, f.Size, mode, f.Blob, f.Key)
		}
		kv, err := b.bus.JetStream(b.t).KeyValue(t.Context(), content.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		put := func(f content.File, sealed []byte) {
			if _, err := kv.Put(t.Context(), f.Chunks()[0], sealed); err != nil {
				t.Fatal(err)
			}
		}
		put(script, sealedScript)
		b.start()
		b.give(1, "states:\n  "+motd+": {file.managed: {source: files/motd, template: true}}\n  "+dir+"/tools: {file.recurse: {source: files/tools}}\n"+
			"_states: {order: ["+motd+", "+dir+"/tools], refs: {}, files: {files/motd: "+entry(f, "0644")+", files/tools/deep/tool: "+entry(script, "0755")+"}}")
		b.inForce(1)
		synctest.Wait()
		if n := b.lastApplied().MissingContents; n != 1 {
			t.Errorf("%d contents are reported as missing, want 1", n)
		}
		if features := b.lastApplied().Features; !slices.Equal(features, []string{wire.FeatureStates}) {
			t.Errorf("the peel reports that it understands %q", features)
		}
		began := time.Now()
		r := b.call("state.apply", nil)
		wants(t, r, false, motd+": failed", dir+"/tools: changed intended")
		if !strings.Contains(fmt.Sprint(r.Data), "the content of files/motd has not arrived in 30s") {
			t.Errorf("without the content: %+v", r)
		}
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("the run took %v", took)
		}
		put(f, sealed)
		time.Sleep(2 * time.Minute)
		if n := b.lastApplied().MissingContents; n != 0 {
			t.Errorf("%d contents are reported as missing after they have arrived", n)
		}
		b.stop()
		b.bus.Stop(t)
		b.start() // without a bus, from the disk
		b.bus.Start(t)
		time.Sleep(time.Minute)
		if r = b.call("state.apply", nil); !r.Success {
			t.Errorf("%+v", r)
		}
		if data, _ := os.ReadFile(motd); string(data) != "hello web.01\n" {
			t.Errorf("the file has %q", data)
		}
		if info, err := os.Stat(tool); err != nil || info.Mode() != 0o755 {
			t.Errorf("%v, %v", info, err)
		}
	})
}

func TestSettingsWhoseContentsCannotBeReadAreReported(t *testing.T) {
	runStates(t, func(b *bench) {
		b.start()
		b.give(1, "_states: {order: [], refs: {}, files: {files/motd: {sha256: no, size: 1, mode: '0644', blob: ../../key, key: no}}}")
		b.inForce(1)
		if errs := b.lastApplied().Errors; len(errs) != 1 || !strings.Contains(errs[0], "files/motd") {
			t.Errorf("the report has the errors %q", errs)
		}
	})
}
