// Package crontab reads tables of the cronie daemon: /etc/crontab, the files of /etc/cron.d, and the tables of users.
//
// [Parse] returns the jobs of a table, and for each line that the daemon refuses the reason. [Daemon.Fires] lists when
// the daemon starts a job. It walks from minute to minute as the daemon does, and shares no code with package cron, so
// the two can be compared.
//
// The rules are those of cronie 1.7: src/entry.c for the fields, env.c for the variables, do_command.c for %, and
// cron.c for changes of the clock.
//
// Known gap: where the clock of the host changes within the hour of a job with CRON_TZ, cronie can start the job twice
// or not at all. Fires leaves that out.
package crontab

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

const (
	maxTable    = 1 << 20 // bytes of a table
	maxCommand  = 131072  // bytes of a command
	maxVariable = 131072  // bytes of NAME=VALUE
	maxDelay    = 24 * 60 // RANDOM_DELAY, minutes
)

// A Job is one line of a table that the daemon runs.
type Job struct {
	Line    int
	Text    string   // the line as written
	Comment []string // the comment lines right above, without #
	User    string
	Command string
	Stdin   string
	// Env has the variables that the table sets above the line. It has neither USER nor LOGNAME, which the daemon sets
	// itself, nor the variables that only the daemon reads.
	Env    map[string]string
	MailTo string // MAILTO, for reports of the output
	Zone   string // CRON_TZ, empty for the zone of the host
	Delay  int    // RANDOM_DELAY: the longest delay of a start, minutes
	Reboot bool   // @reboot: the job runs when the host starts, and Times is empty
	Times  Times
}

// A Refusal is a line that the daemon does not run.
type Refusal struct {
	Line   int
	Text   string
	Reason string
}

// Parse reads a table. If user is empty, lines have a column with the user, as in /etc/crontab and /etc/cron.d; else
// the table belongs to that user.
func Parse(text, user string) ([]Job, []Refusal, error) {
	if len(text) > maxTable {
		return nil, nil, fmt.Errorf("the table has %d bytes; the most are %d", len(text), maxTable)
	}
	r := reader{owner: user, env: map[string]string{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		r.line(n, line)
	}
	return r.jobs, r.refused, nil
}

// A reader goes through a table from line to line.
type reader struct {
	owner   string            // of the table; empty if lines name their user
	env     map[string]string // what the lines so far set
	comment []string
	jobs    []Job
	refused []Refusal
}

func (r *reader) line(n int, written string) {
	text, ended := strings.CutSuffix(written, "\n")
	text = strings.TrimLeft(text, " \t")
	switch {
	case text == "":
		r.comment = nil
		return
	case text[0] == '#':
		r.comment = append(r.comment, strings.TrimSpace(strings.TrimLeft(text, "#")))
		return
	}
	comment := r.comment
	r.comment = nil
	if strings.ContainsRune(text, 0) {
		r.refused = append(r.refused, Refusal{n, text, "the line has a byte 0, where the daemon ends it"})
		return
	}
	if name, value, ok := variable(text); ok {
		if reason := r.set(name, value); reason != "" {
			r.refused = append(r.refused, Refusal{n, text, reason})
		}
		return
	}
	job, err := r.job(text)
	if err == nil && !ended {
		err = errors.New("the last line of the table has no end of line, so the daemon ignores it")
	}
	if err != nil {
		r.refused = append(r.refused, Refusal{n, text, err.Error()})
		return
	}
	job.Line = n
	job.Text = text
	job.Comment = comment
	r.jobs = append(r.jobs, job)
}

// set stores a variable. It returns why the daemon ignores the value, if it does.
func (r *reader) set(name, value string) string {
	if len(name)+len(value) >= maxVariable {
		return fmt.Sprintf("a variable has at most %d bytes", maxVariable)
	}
	r.env[name] = value
	if name == "RANDOM_DELAY" {
		if n, err := strconv.Atoi(value); err != nil || n < 0 || n > maxDelay {
			delete(r.env, name)
			return fmt.Sprintf("RANDOM_DELAY is a number of minutes from 0 to %d, so the daemon ignores it", maxDelay)
		}
	}
	return ""
}

// job reads a line that is neither a comment nor a variable.
func (r *reader) job(text string) (Job, error) {
	rest, silent := strings.CutPrefix(text, "-")
	if silent && r.owner != "" && r.owner != "root" {
		return Job{}, errors.New("only root may begin a line with -, which keeps the run out of the log")
	}
	j := Job{User: r.owner}
	var err error
	if strings.HasPrefix(rest, "@") {
		word, after := cutWord(rest)
		rest = after
		j.Times, j.Reboot, err = named(word)
	} else {
		j.Times, rest, err = parseTimes(rest)
	}
	if err != nil {
		return Job{}, err
	}
	if rest == "" || rest[0] == '*' {
		return Job{}, errors.New("five fields are needed before the command, and there are fewer or six")
	}
	if r.owner == "" {
		j.User, rest = cutWord(rest)
		switch {
		case rest == "" || rest[0] == '*':
			return Job{}, errors.New("a user and a command are needed after the times")
		case !isUser(j.User):
			return Job{}, fmt.Errorf("%.40q is no name of a user; a table of one user has no such column", j.User)
		}
	}
	if len(rest) >= maxCommand {
		return Job{}, fmt.Errorf("the command has %d bytes; the most are %d", len(rest), maxCommand)
	}
	j.Command, j.Stdin = splitInput(rest)
	r.addEnv(&j)
	return j, nil
}

// addEnv gives a job what the table has set so far.
func (r *reader) addEnv(j *Job) {
	j.Env = maps.Clone(r.env)
	j.MailTo = r.env["MAILTO"]
	j.Zone = r.env["CRON_TZ"]
	j.Delay, _ = strconv.Atoi(r.env["RANDOM_DELAY"]) // set has checked it
	for _, own := range []string{
		"MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "CRON_TZ", "RANDOM_DELAY", "USER", "LOGNAME",
	} {
		delete(j.Env, own)
	}
}

// cutWord returns the text up to the first blank, and the text after the blanks.
func cutWord(text string) (word, rest string) {
	i := strings.IndexAny(text, " \t")
	if i < 0 {
		return text, ""
	}
	return text[:i], strings.TrimLeft(text[i:], " \t")
}

func isUser(name string) bool {
	return len(name) <= 256 && !strings.ContainsAny(name, "/=\"'$;|&<>(){}*%\\")
}

// splitInput splits a command at the first % without a backslash. What follows is the standard input, in which % is the
// end of a line, and which always ends with one.
func splitInput(text string) (command, stdin string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '%':
			return b.String(), input(text[i+1:])
		case text[i] == '\\' && i+1 < len(text):
			i++
			if text[i] != '%' {
				b.WriteByte('\\')
			}
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}

func input(text string) string {
	if text == "" {
		return ""
	}
	out := strings.ReplaceAll(text, `\%`, "\x00")
	out = strings.ReplaceAll(out, "%", "\n")
	out = strings.ReplaceAll(out, "\x00", "%")
	if !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	return out
}
