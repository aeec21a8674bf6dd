//go:build linux

package state

import (
	"context"
	"fmt"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/pkg"
	"github.com/seed-c01c3da5/zester/peel/state/service"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// hostFunctions returns the functions for packages, services and files that need no settings.
func (f *Functions) hostFunctions() map[string]module.Func {
	all := map[string]module.Func{
		"pkg.version":  result(versions),
		"pkg.list":     result(func(ctx context.Context, _ module.Call) (any, error) { return pkg.List(ctx) }),
		"pkg.upgrades": result(func(ctx context.Context, _ module.Call) (any, error) { return pkg.Upgrades(ctx) }),
		"file.stat": result(func(_ context.Context, call module.Call) (any, error) {
			return file.Describe(text(call, "path"))
		}),
		"service.status": result(func(ctx context.Context, call module.Call) (any, error) {
			return service.Status(ctx, text(call, "name"))
		}),
	}
	for _, verb := range []string{"start", "stop", "restart", "reload"} {
		all["service."+verb] = result(func(ctx context.Context, call module.Call) (any, error) {
			own, err := service.Control(ctx, verb, text(call, "name"))
			f.makeLater(call, own)
			return true, err
		})
	}
	return all
}

// versions is pkg.version: the version of one package as text, those of several by name.
func versions(ctx context.Context, call module.Call) (any, error) {
	list, _ := call.Args["names"].([]any)
	names := make([]string, len(list))
	for i, name := range list {
		names[i] = fmt.Sprint(name)
	}
	found, err := pkg.Versions(ctx, names)
	if err == nil && len(names) == 1 {
		return found[names[0]], nil
	}
	return found, err
}

func text(call module.Call, arg string) string {
	s, _ := call.Args[arg].(string)
	return s
}

// result returns a function whose result is what do returns.
func result(do func(context.Context, module.Call) (any, error)) module.Func {
	return func(ctx context.Context, call module.Call) wire.Result {
		data, err := do(ctx, call)
		if err != nil {
			return failure("%v", err)
		}
		return wire.Result{Success: true, Data: data}
	}
}
