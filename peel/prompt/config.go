package prompt

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/private"
)

// Config is the section prompt of peel.yaml. [Default] returns the defaults.
type Config struct {
	URL string `yaml:"url"` // of the chat completions; empty: the peel runs no prompts
	// file with the key of the API, of mode 0600, read at each call; empty: the server needs none
	KeyFile string `yaml:"key_file"`
	// file with the certificates that the server's is checked against; empty: the system's
	CA          string        `yaml:"ca"`
	Model       string        `yaml:"model"`        // of calls that name none
	Models      []string      `yaml:"models"`       // that calls may name; empty: only model
	Timeout     time.Duration `yaml:"timeout"`      // of a call, with the requests that it repeats
	MaxTokens   int           `yaml:"max_tokens"`   // of an answer
	MaxRequests int           `yaml:"max_requests"` // in an hour, with those that are repeated
	MaxCost     float64       `yaml:"max_cost"`     // in an hour, in the currency of prices; 0: no limit
	Prices      Prices        `yaml:"prices"`
}

// Prices are what a million tokens cost, in any currency.
type Prices struct {
	Input  float64 `yaml:"input"`  // of what the model reads
	Output float64 `yaml:"output"` // of what it answers
}

// Default returns the configuration of a peel that runs no prompts.
func Default() Config {
	return Config{Timeout: 2 * time.Minute, MaxTokens: 1024, MaxRequests: 60}
}

// Bounds of the configuration.
const (
	maxTimeout  = time.Hour
	maxTokens   = 1_000_000
	maxRequests = 1000
	maxModels   = 100
	maxModel    = 200 // bytes of a name
)

// Allowed returns the names of the models that a call may name.
func (c *Config) Allowed() []string {
	if len(c.Models) > 0 {
		return c.Models
	}
	return []string{c.Model}
}

// Check returns an error if the peel cannot run prompts with this configuration. It reads no file.
func (c *Config) Check() error {
	if err := c.checkURL(); err != nil {
		return err
	}
	switch {
	case c.Model == "":
		return errors.New("cannot run prompts: prompt.model is missing, the model that is asked")
	case !slices.Contains(c.Allowed(), c.Model):
		return fmt.Errorf("cannot run prompts: prompt.model %q is not one of prompt.models", c.Model)
	case len(c.Models) > maxModels:
		return fmt.Errorf("cannot run prompts: prompt.models has %d names, and the most are %d", len(c.Models),
			maxModels)
	case c.Timeout <= 0 || c.Timeout > maxTimeout:
		return fmt.Errorf("cannot run prompts: prompt.timeout must be more than 0 and at most %v, not %v", maxTimeout,
			c.Timeout)
	case c.MaxTokens < 1 || c.MaxTokens > maxTokens:
		return fmt.Errorf("cannot run prompts: prompt.max_tokens must be from 1 to %d, not %d", maxTokens, c.MaxTokens)
	case c.MaxRequests < 1 || c.MaxRequests > maxRequests:
		return fmt.Errorf("cannot run prompts: prompt.max_requests must be from 1 to %d in an hour, not %d",
			maxRequests, c.MaxRequests)
	}
	for _, name := range c.Allowed() {
		if name == "" || len(name) > maxModel {
			return fmt.Errorf("cannot run prompts: %.60q is no name of a model, which has 1 to %d bytes", name,
				maxModel)
		}
	}
	for name, n := range map[string]float64{
		"max_cost":      c.MaxCost,
		"prices.input":  c.Prices.Input,
		"prices.output": c.Prices.Output,
	} {
		if !(n >= 0) || math.IsInf(n, 0) {
			return fmt.Errorf("cannot run prompts: prompt.%s must be 0 or more, not %v", name, n)
		}
	}
	if c.MaxCost > 0 && c.Prices.Input+c.Prices.Output == 0 {
		return errors.New("cannot run prompts: prompt.max_cost needs prompt.prices, what a million tokens cost")
	}
	return nil
}

// checkURL accepts https, and http on loopback, where nobody else can read the key and the prompts. What is in the URL
// can get into errors, so it must hold no key.
func (c *Config) checkURL() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return errors.New("cannot run prompts: prompt.url is no URL; write it like https://HOST/v1/chat/completions")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New(
			"cannot run prompts: prompt.url has a user, a query or a fragment; the key belongs into prompt.key_file",
		)
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("cannot run prompts: prompt.url %q must be like https://HOST/v1/chat/completions", c.URL)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf(
			"cannot run prompts: prompt.url %q must be https, because others could read the key and the prompts; "+
				"http is for this host alone",
			c.URL,
		)
	}
	return nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// CheckKey returns an error if the key cannot be read now.
func (c *Config) CheckKey() error {
	_, err := c.key()
	return err
}

// bearer matches a token as RFC 6750, section 2.1, has it in a header.
var bearer = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

const (
	minKey = 12 // bytes: parts of 8 bytes of a key are hidden wherever they occur
	maxKey = 8 << 10
)

// key reads the key.
func (c *Config) key() (secretKey, error) {
	if c.KeyFile == "" {
		return secretKey{}, nil
	}
	if err := private.Check(c.KeyFile); err != nil {
		return secretKey{}, err
	}
	file, err := os.Open(c.KeyFile)
	if err != nil {
		return secretKey{}, fmt.Errorf("cannot read the key of the model: %w", err)
	}
	defer file.Close()
	data, err := private.Read(file, maxKey)
	if err != nil {
		return secretKey{}, fmt.Errorf("cannot read the key of the model in %s: %w", c.KeyFile, err)
	}
	text := strings.TrimSpace(string(data))
	if len(text) < minKey || !bearer.MatchString(text) {
		return secretKey{}, fmt.Errorf(
			"cannot use the key of the model in %s: it must be one line of %d or more letters, digits and ._~+/-=",
			c.KeyFile, minKey,
		)
	}
	return newSecretKey(text), nil
}

// client returns the client of the server. It keeps no connections, because hours can be between two calls.
func (c *Config) client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("cannot run prompts: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("cannot run prompts: prompt.ca %s contains no certificate", c.CA)
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        config,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// cost returns what an answer cost, 0 if the server does not tell its tokens.
func (c *Config) cost(r *response) float64 {
	return (float64(r.promptTokens)*c.Prices.Input + float64(r.completionTokens)*c.Prices.Output) / 1e6
}

// dearest returns the most that a request can cost. A token has at least one byte, and some are added around each
// message.
func (c *Config) dearest(messages []message, maxTokens int) float64 {
	input := 0
	for _, m := range messages {
		input += len(m.Content) + 64
	}
	return (float64(input)*c.Prices.Input + float64(maxTokens)*c.Prices.Output) / 1e6
}
