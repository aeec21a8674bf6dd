package survey

import "testing"

func TestFilesThatLookAsIfTheyHadASecret(t *testing.T) {
	for _, c := range []struct{ path, content, want string }{
		{"/etc/motd", "Welcome. Passwords are changed each month.\n", ""},
		{"/etc/shadow", "root:*:1:0:::::\n", "it has the hashes of passwords"},
		{"/etc/ssl/key.pem", "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n", "it has the shape of a private key"},
		{"/etc/my.cnf", "[client]\nuser=app\npassword=hunter2\n", "line 3 gives a value to the name of a secret"},
		{"/etc/ssh/sshd_config", "PermitRootLogin no\nPasswordAuthentication no\nHostKey /etc/ssh/ssh_host_ed25519_key\n", ""},
		{"/etc/app.ini", "# password=example\n; token=example\n", ""},
		{"/etc/pip.conf", "index-url = https://ada:hunter2@example.org/simple\n", "line 1 gives a value to the name of a secret"},
	} {
		if got := Secret(c.path, []byte(c.content)); got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
}
