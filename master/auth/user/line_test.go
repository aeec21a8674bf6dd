package user_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
)

func TestALineHasAtMostSixtyFourPeople(t *testing.T) {
	chain := func(length int) func(string) ([]string, error) {
		return func(name string) ([]string, error) {
			var i int
			_, err := fmt.Sscanf(name, "p%d", &i)
			if i == length {
				return nil, err
			}
			return []string{fmt.Sprintf("p%d", i+1)}, err
		}
	}
	if all, err := user.Line("p1", chain(64)); err != nil || len(all) != 64 || all[63] != "p64" {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := user.Line("p1", chain(65)); !errors.Is(err, grants.ErrNotAllowed) {
		t.Errorf("%v, %v", all, err)
	}

	calls := 0
	all, err := user.Line("ann", func(name string) ([]string, error) { // a ring ends
		calls++
		return map[string][]string{"ann": {"bob", "cora"}, "bob": {"ann", "cora"}}[name], nil
	})
	if err != nil || len(all) != 3 || calls != 3 {
		t.Errorf("%v, %v after %d calls", all, err, calls)
	}

	failed := errors.New("the bus is away")
	if all, err := user.Line("ann", func(string) ([]string, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("%v, %v", all, err)
	}
}
