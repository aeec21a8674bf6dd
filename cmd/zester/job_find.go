package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// lastJob is the word for the newest job of the user.
const lastJob = "last"

// A job is named by its ID, by at least minJID characters of its beginning, or by [lastJob].
const (
	lengthJID = 27
	minJID    = 4
)

var jidBeginning = regexp.MustCompile(`^[0-9A-Za-z]+$`)

// checkJobWord refuses a word that cannot name a job. It asks no master.
func checkJobWord(word string) error {
	if word == lastJob || jidBeginning.MatchString(word) && len(word) >= minJID && len(word) < lengthJID {
		return nil
	}
	if _, err := wire.ParseJID(word); err != nil {
		return usageError("%w; a job is named by its ID, by %d or more characters of its beginning, or by %q", err,
			minJID, lastJob)
	}
	return nil
}

// findJob returns the ID of the job named by a word.
func findJob(ctx context.Context, client *api.Client, word string) (wire.JID, error) {
	switch {
	case word == lastJob:
		return findLast(ctx, client)
	case len(word) == lengthJID:
		return wire.JID(word), nil
	}
	// Job IDs sort by time: the matching jobs are the newest before the greatest ID with this beginning.
	before, err := wire.ParseJID(word + strings.Repeat("z", lengthJID-len(word)))
	if err != nil {
		return "", noJob(word)
	}
	page, err := api.JobList.Ask(ctx, client, job.Query{Cursor: before, Limit: 2})
	if err != nil {
		return "", err
	}
	var found []string
	for _, j := range page.Jobs {
		if strings.HasPrefix(string(j.JID), word) {
			found = append(found, string(j.JID))
		}
	}
	switch len(found) {
	case 0:
		return "", noJob(word)
	case 1:
		return wire.JID(found[0]), nil
	}
	return "", &failure{
		code: exitFailed,
		err:  fmt.Errorf("several jobs begin with %s: %s", word, strings.Join(found, ", ")),
		hint: "type more of the ID",
	}
}

func noJob(word string) error {
	return &api.Error{Code: api.CodeNotFound, Msg: fmt.Sprintf("no such job: no ID begins with %s", word)}
}

// maxPages bounds the search for the user's newest job: a page is up to 2,000 jobs.
const maxPages = 20

// sameSecond is the number of newest jobs that are compared by time, because IDs of the same second are not in order.
const sameSecond = 50

func findLast(ctx context.Context, client *api.Client) (wire.JID, error) {
	q := job.Query{User: client.User(), Asked: true, Limit: sameSecond}
	for range maxPages {
		page, err := api.JobList.Ask(ctx, client, q)
		switch {
		case err != nil:
			return "", err
		case len(page.Jobs) > 0:
			last := page.Jobs[0]
			for _, j := range page.Jobs {
				if j.JID.Time().Equal(last.JID.Time()) && j.Created.After(last.Created) {
					last = j
				}
			}
			return last.JID, nil
		case page.Next == "":
			return "", &api.Error{
				Code: api.CodeNotFound,
				Msg:  fmt.Sprintf("no such job: %s has started none", client.User()),
			}
		}
		q.Cursor = page.Next
	}
	return "", &failure{
		code: exitFailed,
		err:  errors.New("none of the newest jobs is yours"),
		hint: "zester job list --user " + client.User() + " searches all jobs",
	}
}
