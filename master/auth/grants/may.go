package grants

import (
	"slices"

	"github.com/nats-io/jwt/v2"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// May reports whether a role may send masters the request of a noun and a verb, such as "job" and "cancel". The verbs
// dispatch of job and resolve of target have subjects of their own. Masters ask it for requests that they pass on,
// which the server of the bus does not refuse.
func May(r Role, noun, verb string) bool {
	const user = "user"
	subject := wire.API(noun, verb, user)
	switch noun + "." + verb {
	case "job.dispatch":
		subject = wire.Dispatch(user)
	case "target.resolve":
		subject = wire.Resolve(user)
	}
	return slices.ContainsFunc(published()[r], func(p jwt.Subject) bool { return covers(p, jwt.Subject(subject)) })
}
