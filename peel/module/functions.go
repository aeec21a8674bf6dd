package module

import (
	"context"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func ping(context.Context, Call) wire.Result { return success(true) }

func echo(_ context.Context, call Call) wire.Result { return success(call.Args["text"]) }

func fail(_ context.Context, call Call) wire.Result {
	if message, ok := call.Args["message"]; ok {
		return failure("%s", message)
	}
	return failure("failed as asked")
}

func sleep(ctx context.Context, call Call) wire.Result {
	var args struct {
		Duration time.Duration `yaml:"duration"`
	}
	decode(call.Args, &args)
	start := time.Now()
	timer := time.NewTimer(args.Duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return success(args.Duration.String())
	case <-ctx.Done():
		return failure("stopped after %v of %v: %v", time.Since(start).Round(time.Millisecond), args.Duration,
			context.Cause(ctx))
	}
}

func (r *Registry) listFunctions(context.Context, Call) wire.Result { return success(r.Names()) }

// doc returns the catalogue's entries by name: of one function, of one module, or of all functions.
func (r *Registry) doc(_ context.Context, call Call) wire.Result {
	want, one := call.Args["function"].(string)
	docs := map[string]catalogue.Function{}
	for name := range r.funcs {
		module, _, _ := strings.Cut(name, ".")
		if !one || want == name || want == module {
			docs[name], _ = catalogue.Lookup(name)
		}
	}
	if len(docs) == 0 {
		return failure("no such function %q%s", want, strictyaml.Suggest(want, r.Names()))
	}
	return success(docs)
}
