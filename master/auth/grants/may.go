package grants

import "github.com/seed-c01c3da5/zester/master/auth/access"

// May reports whether a role may send masters the request of a noun and a verb, such as "job" and "cancel". Masters ask
// it for requests that they pass on, which the server of the bus does not refuse.
func May(r Role, noun, verb string) bool { return access.Sends(string(r), access.Verb(noun+"."+verb)) }
