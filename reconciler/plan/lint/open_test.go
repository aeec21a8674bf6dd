package lint_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
)

func TestAModeThatOpensAFileWithASecretIsAWarning(t *testing.T) {
	w := sopstest.New(t)
	file := w.Encrypt("^(content|key)$", `states:
  open: {file.managed: {path: /etc/open, content: hunter2-hunter2, mode: "0644"}}
  block: {file.block: {path: /etc/block, content: hunter2-hunter2, mode: "0664"}}
  template: {file.managed: {path: /etc/t, source: files/t.conf, template: true, vars: {key: hunter2-hunter2}, mode: "0444"}}
  group: {file.managed: {path: /etc/group-only, content: hunter2-hunter2, mode: "0640"}}
  plain: {file.managed: {path: /etc/plain, content: hunter2-hunter2}}
`)
	p, err := plan.NewCompiler().Check(fstest.MapFS{
		"top.yaml":        {Data: []byte("base: {'*': [a, b]}")},
		"settings/a.yaml": {Data: []byte(file)},
		"settings/b.yaml": {Data: []byte("states:\n  public: {file.managed: {path: /etc/public, content: hello, mode: \"0644\"}}\n")},
		"files/t.conf":    {Data: []byte("{{key}}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range lint.New(lint.Options{From: from}).All(p) {
		if strings.Contains(e.Msg, "can read it") {
			found = append(found, e.Path+" "+e.Msg)
		}
	}
	const text = "the content has a secret, and every user of the host can read it with the mode "
	want := []string{
		"states.block.file.block.mode " + text + "0664; without mode others cannot",
		"states.open.file.managed.mode " + text + "0644; without mode others cannot",
		"states.template.file.managed.mode " + text + "0444; without mode others cannot",
	}
	slices.Sort(found)
	if !slices.Equal(found, want) {
		t.Errorf("%q", found)
	}
}
