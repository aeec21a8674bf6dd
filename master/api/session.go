// File session.go has the logins of the console: sessions of browsers, and one-time codes for them.

package api

import (
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// Requests about logins of the console. Any master answers.
var (
	// SessionCreate makes a one-time code for the caller, who has to be a person.
	SessionCreate = endpoint[None, SessionCode]("session", "create", nil)
	SessionList   = reading[None, SessionsAnswer]("session", "list", OfCaller, nil)
	SessionEnd    = endpoint[SessionEndRequest, SessionsEnded]("session", "end", nil)
)

// A SessionCode logs a browser in once, as the person who asked for it, at the master that made the code.
type SessionCode struct {
	Code string    `json:"code"`
	Ends time.Time `json:"ends"`
	ConsoleAt
}

// A ConsoleAt says where a master serves the console.
type ConsoleAt struct {
	// Address is HOST:PORT; empty: the master serves none.
	Address string `json:"address,omitempty"`
	// Host is the HOST or HOST:PORT at which browsers open the console, if a proxy leads there; empty: Address.
	Host string `json:"host,omitempty"`
	// CA has the certificates by which the one at Address is checked; empty: those of the system and of the bus.
	CA string `json:"ca,omitempty"`
}

// A Session is a login of a browser.
type Session struct {
	ID         string             `json:"id"`   // names the session; it opens nothing
	User       string             `json:"user"` // a person, or token:NAME
	Role       grants.Role        `json:"role"`
	Scopes     []credential.Scope `json:"scopes,omitempty"` // of the token that began it; nil: a person did
	Login      *credential.Login  `json:"login,omitempty"`  // at the provider; nil: no provider began it
	SID        string             `json:"sid,omitempty"`    // the session at the provider; empty: it does not say
	Groups     []string           `json:"groups,omitempty"` // of the person at the provider, sorted
	From       string             `json:"from"`             // address of the browser
	Agent      string             `json:"agent,omitempty"`  // the browser, as it calls itself
	Began      time.Time          `json:"began"`
	Seen       time.Time          `json:"seen"` // the last request, to a minute
	Ends       time.Time          `json:"ends"` // at the latest
	BreakGlass bool               `json:"break_glass,omitempty"`
}

// SessionsAnswer is the sessions of the caller, for operators those of everybody, the newest first.
type SessionsAnswer struct {
	Sessions []Session `json:"sessions"`
}

// SessionEndRequest ends one session, or all sessions of a user. Only operators end those of others.
type SessionEndRequest struct {
	ID   string `json:"id,omitempty"`
	User string `json:"user,omitempty"` // all of this user; ID is then empty
}

// SessionsEnded says how many sessions were ended.
type SessionsEnded struct {
	Ended int `json:"ended"`
}

// LoginPath is the path of the console to which zester login sends a [LoginStep], as JSON over https. The answer is a
// [LoginNext], or a problem.
const LoginPath = "/login/host"

// A LoginStep is a request of zester login. The program has made a key. It begins with the key, and perhaps a port. It
// goes on with what the provider has sent to the port, or asks again whether the person has entered the code.
type LoginStep struct {
	Public string `json:"public"` // the public half of the key
	Proof  []byte `json:"proof"`  // see [credential.LoginRequest]
	// Port of 127.0.0.1 to which the provider sends the browser; 0: the person enters a code elsewhere.
	Port uint16 `json:"port,omitempty"`

	Attempt string `json:"attempt,omitempty"` // as it was answered; empty: the login begins
	Code    string `json:"code,omitempty"`    // that the provider has sent to the port
	State   string `json:"state,omitempty"`   // with it
	Refusal string `json:"refusal,omitempty"` // of the provider, in place of a code
	Device  string `json:"device,omitempty"`  // secret of the login by a code, as it was answered
}

// LoginNext is what zester login does next.
type LoginNext struct {
	// At the beginning: the person opens URL. The program takes no answer at its port with another state.
	URL     string `json:"url,omitempty"`
	State   string `json:"state,omitempty"`
	Attempt string `json:"attempt,omitempty"`
	// Of a login by a code: the person enters UserCode at URL until Ends. Wait is how long the program waits until it
	// asks again; SlowDown asks for 5 s more each time from now on.
	UserCode string        `json:"user_code,omitempty"`
	Device   string        `json:"device,omitempty"`
	Ends     time.Time     `json:"ends,omitzero"`
	Wait     time.Duration `json:"wait,omitempty"`
	SlowDown bool          `json:"slow_down,omitempty"`
	Pending  bool          `json:"pending,omitempty"`
	// At the end.
	User string `json:"user,omitempty"`
	credential.LoggedIn
}
