package sops

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

const (
	pluginPrefix = "AGE-PLUGIN-"
	pluginTime   = 30 * time.Second // for a plugin to open one data key
)

// parseIdentities reads lines of identities. The keys of a line that begins with [pluginPrefix] stay outside: the
// program age-plugin-NAME in the path of the process has them, such as in a hardware token or a service.
func parseIdentities(data []byte) ([]age.Identity, error) {
	var outside []age.Identity
	var own bytes.Buffer
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, pluginPrefix) {
			own.WriteString(line)
			continue
		}
		i, err := plugin.NewIdentity(strings.TrimSpace(line), &plugin.ClientUI{})
		if err != nil {
			return nil, err
		}
		o := &pluginIdentity{i, make(chan struct{}, 1)}
		outside = append(outside, o)
	}
	identities, err := age.ParseIdentities(bytes.NewReader(own.Bytes()))
	if err != nil && len(outside) > 0 && !hasIdentity(own.String()) {
		err = nil // all are outside
	}
	return append(identities, outside...), err
}

// hasIdentity reports whether a text has a line that is neither empty nor a comment.
func hasIdentity(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}

// A pluginIdentity opens data keys by a program, one at a time.
type pluginIdentity struct {
	*plugin.Identity
	turn chan struct{} // holds an element while the program runs
}

// Unwrap asks the program, for at most [pluginTime]. It cannot end a program that hangs; until that ends, the identity
// opens nothing and no other program is started.
func (i *pluginIdentity) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	late := time.NewTimer(pluginTime)
	defer late.Stop()
	select {
	case i.turn <- struct{}{}:
	case <-late.C:
		return nil, errors.New("the plugin of age is still busy with another key")
	}
	type answer struct {
		key []byte
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-i.turn }()
		key, err := i.Identity.Unwrap(stanzas)
		answers <- answer{key, err}
	}()
	select {
	case a := <-answers:
		return a.key, a.err
	case <-late.C:
		return nil, fmt.Errorf("age-plugin-%s did not answer within %v", i.Name(), pluginTime)
	}
}
