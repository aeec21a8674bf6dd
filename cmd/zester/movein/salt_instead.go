package movein

import (
	"cmp"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/salt"
)

// insteadOf returns what to write for a function of Salt that has no counterpart. It is empty for a function that
// settings/salt knows, because the report has its words.
func insteadOf(function string) string {
	if salt.Hint(salt.Function, function) != "" {
		return ""
	}
	module, _, _ := strings.Cut(function, ".")
	return ": " + cmp.Or(instead[function], instead[module], inGeneral)
}

// inGeneral is what to write for a function that nothing else is known of.
const inGeneral = "cmd.run with the program that does it, and unless with one that says whether it is done; " +
	"file.managed of the files that it writes"

// instead says what to write for functions and modules of Salt that have no counterpart.
var instead = map[string]string{
	"at.present":              "an entry below schedule: with once",
	"beacon.present":          "state status, alerts and webhooks tell what changed",
	"cron.env_absent":         "take it out of env of cron.present",
	"cron.file":               "zester import crontab FILE, or cron.present for each line",
	"docker_container":        "a unit of systemd or a compose file as file.managed, and service.running",
	"docker_image":            "cmd.run with docker pull, and unless with docker image inspect",
	"docker_network":          "cmd.run with docker network create, and unless with docker network inspect",
	"docker_volume":           "cmd.run with docker volume create, and unless with docker volume inspect",
	"environ.setenv":          "env of the cmd.run that needs it, or file.managed below /etc/profile.d",
	"event.send":              "a change is in the result of the run; alerts and webhooks tell others",
	"file.cached":             "file.managed with source and sha256",
	"file.decode":             "file.managed with the content, or cmd.run: base64 -d with creates",
	"file.hardlink":           "cmd.run: ln, with unless: test A -ef B",
	"file.mknod":              "cmd.run: mknod, with creates",
	"file.missing":            "cmd.run: test ! -e PATH",
	"file.not_cached":         "nothing: peels have no cache of files",
	"file.patch":              "file.managed with the patched file, or cmd.run: patch with unless",
	"file.pruned":             "file.absent",
	"file.retention_schedule": "an entry below schedule: with cmd.run: find DIR -mtime +DAYS -delete",
	"file.shortcut":           "nothing: peels run on Linux",
	"file.tidied": "an entry below schedule: with cmd.run: " +
		"find DIR -type f -regex MATCHES -mtime +DAYS -delete",
	"firewalld":                       "file.managed below /etc/firewalld, and service.running with watch and reload",
	"git.cloned":                      "git.latest, or cmd.run: git clone with creates",
	"git.config_set":                  "file.managed of /etc/gitconfig, or cmd.run: git config with unless",
	"git.detached":                    "git.latest with rev",
	"grains":                          "a setting of the host, or a fact that the peel reads",
	"host.only":                       "host.present for each name, or file.managed of /etc/hosts",
	"htpasswd":                        "file.managed of the file with its hashes, or cmd.run: htpasswd with unless",
	"http.query":                      "cmd.run: curl -fsS URL",
	"incron.present":                  "a unit of systemd with the ending .path as file.managed, and service.running",
	"influxdb_database.present":       withClient + "influx",
	"ini.options_absent":              "file.line with match and absent: true",
	"ini.sections_present":            "file.managed, or file.block with begin and end",
	"jenkins":                         "cmd.run: curl -fsS of its API, with unless",
	"kernelpkg":                       "pkg.latest of the package of the kernel",
	"kmod.absent":                     "file.managed below /etc/modprobe.d, and cmd.run: modprobe -r with onlyif",
	"logrotate.set":                   "file.managed below /etc/logrotate.d",
	"lvm":                             "cmd.run with lvcreate or vgcreate, and unless with lvs or vgs",
	"lxd_container":                   "cmd.run with lxc, and unless with lxc info",
	"mongodb_user.present":            withClient + "mongosh",
	"mysql_database":                  withClient + "mysql",
	"mysql_grants":                    withClient + "mysql",
	"mysql_query":                     withClient + "mysql",
	"mysql_user":                      withClient + "mysql",
	"network.managed":                 "file.managed below /etc/network/interfaces.d or /etc/systemd/network",
	"network.routes":                  "file.managed below /etc/network/interfaces.d or /etc/systemd/network",
	"network.system":                  "file.managed of /etc/hostname and /etc/resolv.conf, and host.present",
	"nftables":                        "file.managed of /etc/nftables.conf with check, and service.running with watch",
	"npm.bootstrap":                   "cmd.run: npm ci with cwd, and creates: DIR/node_modules",
	"npm.removed":                     "cmd.run: npm uninstall -g NAME, with onlyif: npm ls -g NAME",
	"npm.cache_cleaned":               "cmd.run: npm cache clean --force",
	"pip.removed":                     "cmd.run: VENV/bin/pip uninstall -y NAME, with onlyif: VENV/bin/pip show NAME",
	"pip.uptodate":                    "pip.installed with the versions",
	"pkg.downloaded":                  "cmd.run: apt-get -y --download-only install NAME",
	"pkg.group_installed":             "pkg.installed with the names",
	"pkg.mod_init":                    "nothing: lists of packages are read again when they are old",
	"pkg.unheld":                      "cmd.run: apt-mark unhold NAME, with onlyif: apt-mark showhold | grep -x NAME",
	"pkgbuild":                        "cmd.run with the tools of the distribution, and creates",
	"postgres_cluster":                "cmd.run with pg_createcluster, and unless with pg_lsclusters",
	"postgres_database":               withClient + "psql",
	"postgres_extension":              withClient + "psql",
	"postgres_group":                  withClient + "psql",
	"postgres_privileges":             withClient + "psql",
	"postgres_schema":                 withClient + "psql",
	"postgres_user":                   withClient + "psql",
	"quota":                           "cmd.run: setquota, with unless",
	"rabbitmq_plugin":                 "file.managed of /etc/rabbitmq/enabled_plugins",
	"rabbitmq_policy":                 withClient + "rabbitmqctl",
	"rabbitmq_user":                   withClient + "rabbitmqctl",
	"rabbitmq_vhost":                  withClient + "rabbitmqctl",
	"rbenv":                           "cmd.run with rbenv install, and creates",
	"rsync.synchronized":              "file.recurse, or cmd.run with rsync",
	"rvm":                             "cmd.run with rvm install, and creates",
	"salt":                            "zester TARGET FUNCTION for one group of hosts after another, in a script",
	"schedule.absent":                 "take the entry below schedule: out of the settings",
	"schedule.disabled":               "enabled: false in the entry below schedule:",
	"schedule.enabled":                "enabled: true in the entry below schedule:",
	"selinux.fcontext_policy_present": "cmd.run: semanage fcontext -a, with unless: semanage fcontext -l | grep",
	"selinux.mode":                    "file.line in /etc/selinux/config, and cmd.run: setenforce with unless",
	"service.unmasked":                "service.running with unmask: true",
	"slack.post_message":              "webhooks tell others of the results of runs",
	"smtp.send_msg":                   "alerts and webhooks tell others of the results of runs",
	"ssh_auth.manage":                 "ssh_auth.present; to remove other keys, file.managed of authorized_keys",
	"supervisord.dead":                "cmd.run: supervisorctl stop, with onlyif: supervisorctl status | grep",
	"supervisord.running":             "cmd.run: supervisorctl start, with unless: supervisorctl status | grep",
	"system.computer_name":            "file.managed of /etc/hostname",
	"system.hostname":                 "file.managed of /etc/hostname, and cmd.run: hostname NAME with unless",
	"sysfs":                           "file.managed below /etc/tmpfiles.d, and cmd.run: systemd-tmpfiles --create",
	"test.check_pillar":               "a setting that is missing is an error of lint",
	"test.configurable_test_state":    "nothing: it is there to try Salt",
	"test.fail_with_changes":          "cmd.run: false",
	"test.fail_without_changes":       "cmd.run: false",
	"test.succeed_with_changes":       "cmd.run: true",
	"timezone":                        "timezone.system",
	"tuned":                           "cmd.run: tuned-adm profile NAME, with unless: tuned-adm active | grep NAME",
	"ufw":                             "cmd.run: ufw allow, with unless: ufw status | grep",
	"user.local":                      "user.present",
	"webutil":                         "file.managed of the file with its hashes, or cmd.run: htpasswd with unless",
	"x509":                            "cmd.run with openssl, and creates",
	"zabbix_host":                     "cmd.run: curl -fsS of its API, with unless",
}

// withClient is the common part of what to write for states of databases and brokers.
const withClient = "cmd.run with a guard in unless, and the program "

// insteadOfArgument returns what to write for an argument of Salt that has no counterpart, after a colon, or "".
func (c *conversion) insteadOfArgument(name string) string {
	for _, key := range []string{c.Function() + " " + name, c.State + " " + name, name} {
		if what := insteadArgument[key]; what != "" {
			return ": " + what
		}
	}
	return salt.Hint(salt.Argument, name)
}

// insteadArgument says what to write for arguments of functions, of modules and of all functions.
var insteadArgument = map[string]string{
	"archive.extracted clean":        "cmd.run: rm -rf PATH with onchanges, before it",
	"archive.extracted password":     "cmd.run: unzip -P with creates",
	"archive.extracted list_options": "leave it out: the peel reads the archive itself",
	"cmd bg":                         "a unit of systemd as file.managed, and service.running",
	"cmd prepend_path":               "PATH in env",
	"cmd root":                       "chroot in the command",
	"cmd success_stderr":             "|| with a test in the command",
	"cmd success_stdout":             "changed_if with output",
	"file attrs":                     "cmd.run: chattr, with unless: lsattr | grep",
	"file encoding":                  "the file in files/ as source, in its encoding",
	"file selinux":                   "cmd.run: chcon or restorecon, with unless",
	"file.directory exclude_pat": "without clean, cmd.run: find PATH … -delete with onlyif; with clean, a state for " +
		"each path that stays",
	"file.directory max_depth": "cmd.run: find PATH -maxdepth N … -exec chown, with onlyif",
	"file.recurse maxdepth":    "the files that are wanted alone in a directory of files/",
	"file.recurse replace":     "file.managed with replace: false for each file",
	"file.recurse sym_mode":    "leave it out: a link has no mode on Linux",
	"git bare":                 "cmd.run: git clone --bare, with creates",
	"git https_pass":           "the key of the user of the clone, with an address of ssh",
	"git https_user":           "the key of the user of the clone, with an address of ssh",
	"git identity":             "the key in .ssh/config of the user of the clone: Host HOST, IdentityFile FILE",
	"git mirror":               "cmd.run: git clone --mirror, with creates",
	"git remote":               "leave it out: the remote is origin",
	"pip editable":             "cmd.run: VENV/bin/pip install -e, with unless: VENV/bin/pip show NAME",
	"pip extra_index_url":      "index with one address that has all packages",
	"pip upgrade":              "the version, NAME==VERSION",
	"pkg fromrepo":             "the version, or file.managed below /etc/apt/preferences.d",
	"pkg sources":              "pkgrepo.managed, or cmd.run: apt-get -y install FILE with unless: dpkg -s",
	"pkgrepo keyserver":        "the key as a file below files/, as key",
	"pkgrepo keyid":            "the key as a file below files/, as key",
	"pkgrepo key_text":         "the key as a file below files/, as key",
	"pkgrepo ppa":              "uris: https://ppa.launchpadcontent.net/OWNER/NAME/ubuntu, and its key as key",
	"user empty_password":      "a hash as password",
	"user hash_password":       "the hash that mkpasswd prints, as password",
	"onfail_all":               "onfail, if one failure is enough",
	"onfail_stop":              "leave it out: a failure ends no run without failhard",
	"runas":                    "a cmd.run that has user",
	"timeout":                  "timeout beside the arguments of the state",
}
