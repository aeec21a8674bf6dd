package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
)

// every is what a webhook posts where nothing else is said.
const every = `{"state": "${state}", "text": "${text}", "commit": "${commit}", "branch": "${branch}", "author": "${author}", ` +
	`"subject": "${subject}", "peels": ${peels}, "applied": ${applied}, "failed": ${failed}, "offline": ${offline}, "seconds": ${seconds}}`

// post is the request of a webhook. Its signature is as [webhook.Generic] has it, so that one zester understands another.
func (p *Place) post(ctx context.Context, r Report) (*http.Request, error) {
	body, err := fill(p.o.Body, r)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.api.String(), bytes.NewReader(body))
	if err != nil || p.o.Secret == "" {
		return req, err
	}
	key, err := gitrepo.ReadSecret(p.o.Secret)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	req.Header.Set("X-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return req, nil
}

// fill puts a report into a template.
func fill(template string, r Report) ([]byte, error) {
	if template == "" {
		template = every
	}
	values := map[string]string{
		"state": string(r.State), "text": r.Text, "commit": r.Commit, "short": fmt.Sprintf("%.7s", r.Commit), "branch": r.Branch,
		"author": r.Author, "subject": r.Subject, "peels": strconv.Itoa(r.Peels), "applied": strconv.Itoa(r.Applied),
		"failed": strconv.Itoa(r.Failed), "offline": strconv.Itoa(r.Offline),
		"seconds": strconv.FormatFloat(r.Took.Seconds(), 'f', 3, 64), "$": "$",
	}
	unknown := ""
	out := []byte(os.Expand(template, func(name string) string {
		value, ok := values[name]
		if !ok {
			unknown = name
		}
		quoted, _ := json.Marshal(value) // a string always can
		return string(quoted[1 : len(quoted)-1])
	}))
	switch {
	case unknown != "":
		return nil, fmt.Errorf("its body has ${%s}, which stands for nothing", unknown)
	case !json.Valid(out):
		return nil, fmt.Errorf("its body is not JSON once it is filled in: %s", shown(out))
	}
	return out, nil
}
