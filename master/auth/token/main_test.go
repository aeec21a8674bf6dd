package token_test

import (
	"os"
	"testing"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }
