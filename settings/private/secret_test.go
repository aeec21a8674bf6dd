package private_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/private"
)

func TestNamesOfSecrets(t *testing.T) {
	const secret = `password passwd db_password dbPassword PGPASSWORD MYSQL_PWD admin.pass user-pass passphrase key_passphrase
		secret client_secret clientSecret secrets secret_id django_secret_key SECRET token tokens api_token apiToken X-Auth-Token
		token_value oauth2_token GITHUB_TOKEN github_pat credential credentials aws_credentials authorization Authorization
		api_key apikey apiKey API-KEY private_key privateKey ssh_private_key access_key accessKey aws_access_key_id auth_key
		encryption_key master_key preshared_key wg_psk signing_key pw`
	const plain = `user username name path passage compass bypass pattern patch key keys public_key public_keys ssh_key_name
		token_ttl token_url token_endpoint password_file password_policy secret_name secret_path token_count passwd_max_length
		tokenTimeout credentials_dir monkey keyboard turkey spwd pwned patron`
	for name := range strings.FieldsSeq(secret) {
		if !private.LooksSecret(name) {
			t.Errorf("%s does not look secret", name)
		}
	}
	for name := range strings.FieldsSeq(plain) {
		if private.LooksSecret(name) {
			t.Errorf("%s looks secret", name)
		}
	}
}

func TestSecretsInTextsAreHidden(t *testing.T) {
	const hidden = private.Hidden
	seed := "SU" + strings.Repeat("A", 56)
	for _, tt := range []struct{ name, text, want string }{
		{"no secret", "web-01 listens on 80; user: ann", "web-01 listens on 80; user: ann"},
		{"a parameter", "curl -d password=hunter2 localhost", "curl -d password=" + hidden + " localhost"},
		{"behind a colon", "exit code 3: password=hunter2", "exit code 3: password=" + hidden},
		{"in quotes", `api_key = "a b c" and more`, "api_key = " + hidden + " and more"},
		{"JSON", `{"token": "abc", "n": 1}`, `{"token": ` + hidden + `, "n": 1}`},
		{"YAML", "db_password: hunter2\nport: 5432", "db_password: " + hidden + "\nport: 5432"},
		{"a header", "Authorization: Bearer abc.def", "Authorization: Bearer " + hidden},
		{"a query", "https://example.org/?a=1&token=abc&b=2", "https://example.org/?a=1&token=" + hidden + "&b=2"},
		{"a password in a URL", "cannot fetch https://ann:hunter2@example.org/r", "cannot fetch https://" + hidden + "@example.org/r"},
		{"a token as the user of a URL", "https://abcdef@example.org", "https://" + hidden + "@example.org"},
		{"how long a token lasts", "token_ttl=300 s", "token_ttl=300 s"},
		{"the user of a program", "by token:ci from mars", "by token:ci from mars"},
		{"a colon without a space", "password:hunter2", "password:" + hidden},
		{"a flag", "+ mysqldump --password hunter2 --host db", "+ mysqldump --password " + hidden + " --host db"},
		{"a flag at the beginning", "--api-key 'a b' x", "--api-key " + hidden + " x"},
		{"a flag without a secret", "sort --key 2 --header 'Authorization: Bearer abc' --token-ttl 5", "sort --key 2 --header 'Authorization: Bearer " + hidden + "' --token-ttl 5"},
		{"a seed", "seed " + seed + " end", "seed " + hidden + " end"},
		{"a private key", "a\n-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\nb", "a\n" + hidden + "\nb"},
		{"a private key that is cut", "a\n-----BEGIN PRIVATE KEY-----\nabc", "a\n" + hidden},
		{"an identity of age", "x AGE-SECRET-KEY-1QQQQ y", "x " + hidden + " y"},
	} {
		if got := private.Hide(tt.text); got != tt.want {
			t.Errorf("%s: %q is shown as %q, want %q", tt.name, tt.text, got, tt.want)
		}
	}
}

func TestCredentialsOfAFleetAreKnown(t *testing.T) {
	for text, want := range map[string]string{
		"x SUA" + strings.Repeat("Q", 55) + "\n":                                                 "a seed of NATS",
		"AGE-SECRET-KEY-1" + strings.Repeat("Q", 58):                                             "an identity of age",
		"zester.a." + strings.Repeat("b", 43):                                                    "a token of zester",
		"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n":                          "",
		"UA" + strings.Repeat("Q", 54) + " age1" + strings.Repeat("q", 58) + " password=hunter2": "",
	} {
		if got := private.Credential(text); got != want {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
}

func TestLinesThatNameASecret(t *testing.T) {
	for text, want := range map[string]bool{
		"password hunter2": true, `"api_key": 1`: true, "--token=abc": true, "port: 80": false, "token_ttl: 5": false, "": false,
	} {
		if got := private.NamesSecret(text); got != want {
			t.Errorf("%q names a secret: %v, want %v", text, got, want)
		}
	}
}

func FuzzHide(f *testing.F) {
	f.Add("password: hunter2", "x")
	f.Add("https://a:b@c token=d", "y")
	f.Fuzz(func(t *testing.T, text, value string) {
		private.Hide(text)
		if strings.ContainsAny(value, " \t\r\n\v\f\"',;&=:/@()") || len(value) < 4 || strings.ToValidUTF8(value, "") != value {
			return
		}
		if got := private.Hide("password=" + value); strings.Contains(got, value) && !strings.Contains(private.Hidden, value) && !strings.Contains("password=", value) {
			t.Errorf("%q is shown as %q", "password="+value, got)
		}
	})
}
