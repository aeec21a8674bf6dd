package cmd_test

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path"
	"sync"
	"testing"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// sources are what tests run as processes of their own: the commands of this tree, and the server of the module that
// go.mod names.
var sources = []string{"./zester", "./zester-master", "./zester-peel", "github.com/nats-io/nats-server/v2"}

var builds struct {
	once sync.Once
	dir  string
	err  error
}

// TestMain runs more tests at once than there are processors, unless -parallel says otherwise: they wait for processes
// more than they compute.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := natstest.InMemory(m)
	if builds.dir != "" {
		_ = os.RemoveAll(builds.dir)
	}
	os.Exit(code)
}

// programs is the folder with all of sources, which the first call builds. The folder is never written again.
func programs(t *testing.T) (dir string) {
	t.Helper()
	builds.once.Do(func() {
		if builds.dir, builds.err = os.MkdirTemp("", "zester-bin-"); builds.err != nil {
			return
		}
		for _, source := range sources {
			name := path.Base(source)
			if name == "v2" {
				name = "nats-server"
			}
			// What go run has linked stays in the build cache, from which tests of other packages have it as well.
			if out, err := exec.Command("go", "run", "-exec", "cp", source, builds.dir+"/"+name).CombinedOutput(); err != nil {
				builds.err = errors.Join(builds.err, err, errors.New(string(out)))
			}
		}
	})
	if builds.err != nil {
		t.Fatal(builds.err)
	}
	return builds.dir + "/"
}

// goBuild is a shell function for what README types to build the commands: it copies them from where programs has them.
func goBuild(t *testing.T) string {
	t.Helper()
	return `go() {
  [ "$1 $2 ${*:4}" = "build -o ./cmd/zester ./cmd/zester-master ./cmd/zester-peel" ] || { echo "not what README types: go $*"; return 1; }
  cp -r ` + programs(t) + ` "$3"
}
`
}
