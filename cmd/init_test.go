package cmd_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestTheCommandsAfterInitLeadToAFleet types the three commands that zester init prints.
func TestTheCommandsAfterInitLeadToAFleet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the commands")
	}
	bin, dir := programs(t), t.TempDir()
	z := cli{t, bin + "zester", []string{"ZESTER_DATA_DIR=" + dir + "/master"}}
	printed := regexp.MustCompile(`(?m)^  (.*)$`).FindAllStringSubmatch(z.must("init", dir+"/fleet"), -1)
	if len(printed) != 3 {
		t.Fatalf("it prints the commands %q", printed)
	}
	typed := strings.Join([]string{printed[0][1], printed[1][1], "echo typed"}, " || exit\n")
	bash := exec.CommandContext(t.Context(), "bash", "-c", typed)
	bash.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		bash.Env = append(bash.Env, "GIT_"+who+"_NAME=Ada", "GIT_"+who+"_EMAIL=ada@example.com")
	}
	if out, err := bash.CombinedOutput(); err != nil || string(out) != "typed\n" {
		t.Fatalf("%v\n%s", err, out)
	}

	if third, _, _ := strings.Cut(printed[2][1], "  #"); strings.TrimSpace(third) != `zester-master --repo "$PWD"` {
		t.Fatalf("the third command is %s", printed[2][1])
	}
	startDaemon(t, bin+"zester-master", "--repo", dir+"/fleet", "--data-dir", dir+"/master", "--listen", "127.0.0.1:0").await(`master is ready`)
	z.until(`A fleet with one entry`, "sync", "history")
}
