package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A typist types pages of the guide into a shell, in a directory and on ports of its own.
type typist struct {
	t      *testing.T
	dir    string
	env    []string
	script strings.Builder
	words  *strings.Replacer // puts the hosts, ports and folders of the test into what the guide prints
}

// systemd stands in for the programs of the system. The command line uses the data directory of the master until there is
// a context, as on the host of a master.
const systemd = `
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
apt-get() { :; }
systemctl() {
  [ "$1 $2" = 'enable --now' ] || return 64
  case $3 in
  zester-master) zester-master --config "$DIR/etc/master.yaml" --data-dir "$DIR/master" 2>"$DIR/master.log" & ;;
  zester-peel)
    local id
    id=$(sed -n 's/^id: //p' "$DIR/etc/peel.yaml")
    cp "$DIR/etc/peel.yaml" "$DIR/$id.yaml"
    zester-peel --config "$DIR/$id.yaml" --data-dir "$DIR/$id" 2>"$DIR/$id.log" &
    ;;
  esac
}
zester() {
  if [ -e "$HOME/.config/zester/config.yaml" ]; then command zester "$@"; else ZESTER_DATA_DIR=$DIR/master command zester "$@"; fi
}
`

func newTypist(t *testing.T) *typist {
	t.Helper()
	dir, bus, rest := t.TempDir(), freePort(t), freePort(t)
	y := &typist{t: t, dir: dir, words: strings.NewReplacer(
		"m1.example.com", "127.0.0.1", "bus.example.com", "127.0.0.1", "0.0.0.0", "127.0.0.1", ":4222", ":"+bus, ":8440", ":"+rest,
		"/etc/zester/", dir+"/etc/", "/etc/cron.d/", dir+"/cron.d/", "/srv/", dir+"/",
	)}
	for _, folder := range []string{"etc", "cron.d", "home"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	y.env = append(os.Environ(), "PATH="+programs(t)+":"+os.Getenv("PATH"), "HOME="+dir+"/home", "XDG_CONFIG_HOME=", "DIR="+dir)
	y.script.WriteString(systemd)
	return y
}

func (y *typist) types(text string) { y.script.WriteString(y.words.Replace(text) + "\n") }

// run runs what was typed and returns what it printed.
func (y *typist) run() string {
	y.t.Helper()
	bash := exec.CommandContext(y.t.Context(), "bash", "-e", "-c", y.script.String())
	bash.Dir, bash.Env = y.dir, y.env
	out, err := bash.CombinedOutput()
	if err != nil {
		y.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestThePageInstallRunsAsPrinted types the way to a fleet of three. What a person does with the own credential from the
// step on that makes it raises no alert; the credential of the data directory does.
func TestThePageInstallRunsAsPrinted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the three commands")
	}
	const page = "zester/guide/install.md"
	y := newTypist(t)
	table := "*/15 * * * * root shop-stock --from warehouse\n0 1 * * * root shop-report --day yesterday\n"
	if err := os.WriteFile(filepath.Join(y.dir, "cron.d/shop"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	y.types("{\n" + typedBlocks(t, page, "On the first host") + "\n} >$DIR/first")
	y.types(`cat $DIR/first; token=$(grep -m1 '^zester\.' $DIR/first)`)
	for _, id := range []string{"m1", "web-01", "web-02"} {
		host := typedBlocks(t, page, "On each host")
		y.types(strings.NewReplacer("web-01", id, "TOKEN", "$token").Replace(host))
	}
	y.types(typedBlocks(t, page, "When all have joined") + typedBlocks(t, page, "Move the crontab"))
	y.types("zester schedule run web-01 shop-report\nzester '*' test.ping")
	y.types("echo AUDIT; zester audit list -o json\nzester --data-dir $DIR/master '*' test.ping\necho LOCAL; zester audit list -o json")
	out := y.run()

	for _, want := range []string{"2 entries, ", "entries: 6 added", "web-02:\n    true\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, audit, _ := strings.Cut(out, "AUDIT\n")
	audit, local, _ := strings.Cut(audit, "LOCAL\n")
	for _, want := range []string{`"schedule.run"`, `"user": "ada"`, `"join.create"`} {
		if !strings.Contains(audit, want) {
			t.Errorf("no %s in the audit log\n%s", want, audit)
		}
	}
	if strings.Contains(audit, "break_glass") || !strings.Contains(local, "break_glass") {
		t.Errorf("the page uses the credential of the data directory:\n%s\nor its use is not found:\n%s", audit, local)
	}
}

// TestThePagePeopleRaisesNoAlert types how people get credentials.
func TestThePagePeopleRaisesNoAlert(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the three commands")
	}
	text, err := os.ReadFile("zester/guide/running.md")
	if err != nil {
		t.Fatal(err)
	}
	people := regexp.MustCompile("(?s)\n## People and permissions\n.*?\n```\n(.*?)```").FindSubmatch(text)
	if people == nil {
		t.Fatal("the page has no such commands")
	}
	y := newTypist(t)
	y.types("zester init $DIR/fleet >$DIR/init\ngit -C $DIR/fleet init -q -b main")
	y.types("git config --global user.name Ada\ngit config --global user.email ada@example.com")
	y.types("git -C $DIR/fleet add -A\ngit -C $DIR/fleet commit -q -m first")
	y.types("printf 'repo: /srv/fleet\nlisten: 0.0.0.0:4222\nrest: {listen: \"0.0.0.0:8440\"}\n' >/etc/zester/master.yaml")
	y.types("systemctl enable --now zester-master\nzester sync wait\ntoken=$(zester auth join-token create --peel web-01 --ttl 1h)")
	y.types(strings.ReplaceAll(typedBlocks(t, "zester/guide/install.md", "On each host"), "TOKEN", "$token") + "zester sync wait --peels 1")
	y.types(string(people[1]) + "echo AUDIT; zester audit list -o json")
	out := y.run()
	_, audit, _ := strings.Cut(out, "AUDIT\n")
	if strings.Count(audit, `"user.`) != 4 || strings.Contains(audit, "break_glass") {
		t.Errorf("the commands of the page are not all in the audit log, or one is break-glass:\n%s", out)
	}
}
