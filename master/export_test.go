package master

// UpdateAccount gives the embedded server the JWT of an account.
func (m *Master) UpdateAccount(token string) error { return m.bus.update(token) }
