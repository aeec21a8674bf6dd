package auth

func (q *EnrollRequest) Check() error { return q.check() }
