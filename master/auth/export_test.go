package auth

func (q *EnrollRequest) Check() error { return q.check() }

func CloseIssue(dir string, u *User) error { return closeIssue(dir, u) }
