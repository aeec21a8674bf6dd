// Package view has what the pages of the console show: a struct for each page, and the function that makes it of a
// query and the replies of masters, which it asks for with an [api.Asker]. The struct is also the page as JSON.
//
// Lists have at most [Rows] rows. A page whose subject cannot be read is an error; what only adds to it is an [Extra],
// which has [extraTime], and says what is missing.
package view

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
)

// Rows is how many rows a list has at most.
const Rows = 100

// extraTime is how long a page waits for what only adds to it.
const extraTime = 300 * time.Millisecond

// An Extra is an answer that a page can do without. Error says why there is none.
type Extra[T any] struct {
	Value *T     `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

// ask sends a request for an extra.
func ask[Q, A any](ctx context.Context, by api.Asker, e api.Endpoint[Q, A], q Q) Extra[A] {
	ctx, cancel := context.WithTimeout(ctx, extraTime)
	defer cancel()
	a, err := e.Ask(ctx, by, q)
	if err != nil {
		return Extra[A]{Error: err.Error()}
	}
	return Extra[A]{Value: a}
}
