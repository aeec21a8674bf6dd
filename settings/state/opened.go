package state

import (
	"errors"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// opened refuses arguments with a secret that is decrypted here, as on a master with identities, and that the function
// cannot use. A secret that is not decrypted is checked on the host alone. No message has a part of a secret.
func (r *reader) opened(f Function, n *strictyaml.Node, below string, complete bool) {
	var secrets []strictyaml.Pair
	for _, arg := range n.Map {
		if s := arg.Value.FirstSecret(); s != nil && s.Secret != s.Value && MaySecret(arg.Key) {
			secrets = append(secrets, arg)
		}
	}
	if len(secrets) == 0 {
		return
	}
	args := f.make()
	bad := map[string]string{} // by argument: what is wrong with it
	err := strictyaml.Decode(strictyaml.FromValue(r.path, n.Reveal()), args)
	if list, _ := errors.AsType[strictyaml.Errors](err); len(list) > 0 {
		for _, e := range list {
			name, _, _ := strings.Cut(e.Path, ".")
			bad[name] = "the secret is of a type that the argument cannot have"
		}
	} else {
		for _, p := range args.check(complete) {
			bad[p.arg] = "the secret is no value that the argument can have"
			if p.arg == "password" {
				bad[p.arg] = "the secret " + p.msg // which does not quote it
			}
		}
	}
	for _, arg := range secrets {
		if msg := bad[arg.Key]; msg != "" {
			r.refuse(arg.Value.FirstSecret().Pos, below+"."+arg.Key, "%s", msg)
		}
	}
}
