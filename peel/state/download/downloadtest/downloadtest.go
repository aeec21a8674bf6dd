// Package downloadtest gives tests a server with https whose certificate the process trusts. Call [Main] in TestMain.
package downloadtest

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// Server answers with the handler that a test sets in its Config.
var Server = httptest.NewUnstartedServer(http.NotFoundHandler())

// Inherit is a variable of the environment: a process that has it trusts the certificate that its parent trusts.
const Inherit = "ZESTER_TEST_ROOTS"

// Main runs the tests of a package and returns the exit code. A process reads its roots once, so it names them before
// any test.
func Main(m *testing.M) (code int) {
	if os.Getenv(Inherit) != "" {
		return m.Run()
	}
	Server.Config.ErrorLog = log.New(io.Discard, "", 0)
	Server.StartTLS()
	defer Server.Close()
	roots, err := os.CreateTemp("", "roots-*.pem")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.Remove(roots.Name()) }()
	if err := pem.Encode(roots, &pem.Block{Type: "CERTIFICATE", Bytes: Server.Certificate().Raw}); err != nil {
		panic(err)
	}
	if err := os.Setenv("SSL_CERT_FILE", roots.Name()); err != nil {
		panic(err)
	}
	return m.Run()
}
