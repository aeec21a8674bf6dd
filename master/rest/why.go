package rest

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

type whyInput struct {
	Entry string        `path:"entry" maxLength:"256" doc:"The schedule entry."`
	Peel  target.PeelID `query:"peel" required:"true" minLength:"1" maxLength:"128" doc:"The peel."`
	Time  string        `query:"time" maxLength:"64" example:"2026-06-01T09:00" doc:"When the entry was due; without an offset from UTC a time of the entry's zone. Absent: the last fire."`
}

type whyOutput struct{ Body api.WhyAnswer }

func (r *routes) why(ctx context.Context, in *whyInput) (*whyOutput, error) {
	w, err := r.Questions.Why(ctx, callerOf(ctx), api.WhyRequest{Peel: in.Peel, Entry: in.Entry, Time: in.Time})
	if err != nil {
		return nil, answerError(err)
	}
	return &whyOutput{*w}, nil
}
