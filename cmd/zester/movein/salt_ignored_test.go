package movein

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// outcome converts a declaration and says what became of it, in one text.
func outcome(t *testing.T, l line, more string) string {
	t.Helper()
	args := strings.TrimPrefix(l.args+", "+more, ", ")
	text, refused := convertOne(t, l.function, l.name, strings.TrimSuffix(args, ", "))
	if len(refused) > 0 {
		return "refused: " + reasonsOf(refused)
	}
	return text
}

// reasonsOf returns the reasons of rows in one text.
func reasonsOf(rows []SaltRow) string {
	reasons := make([]string, len(rows))
	for i, row := range rows {
		reasons[i] = row.Reason
	}
	return strings.Join(reasons, " | ")
}

// baseOf returns the first declaration of a function in the tables.
func baseOf(t *testing.T, function string) line {
	t.Helper()
	for _, l := range slices.Concat(bases, lines, programLines, dailyLines) {
		if l.function == function {
			return l
		}
	}
	t.Fatal("no declaration of", function)
	return line{}
}

// bases are declarations whose first one in the other tables does not show what an argument does.
var bases = []line{
	{"user.present", "bob", `"groups": ["adm"]`, ""},
	{"ssh_auth.present", "AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS", `"user": "bob", "enc": "ed25519"`, ""},
	{"file.symlink", "/l", `"target": "/t"`, ""},
	{"file.rename", "/b", `"source": "/a"`, ""},
	{"file.blockreplace", "/f", `"content": "x\n", "append_if_not_found": true`, ""},
	{"git.latest", "https://e.org/a.git", `"target": "/srv/a"`, ""},
	{"ini.options_present", "/f", `"sections": {"a": "b"}`, ""},
	{"pkg.removed", "nginx", "", ""},
	{"pkgrepo.absent", "deb http://e.org/d x main", `"file": "/etc/apt/sources.list.d/e.list"`, ""},
	{"service.dead", "nginx", "", ""},
	{"service.running", "nginx", "", ""},
	{"group.present", "wheel", "", ""},
	{"user.absent", "bob", "", ""},
	{"file.managed", "/f", `"contents": "a"`, ""},
	{"file.directory", "/srv/app/d", "", ""},
	{"file.keyvalue", "/f", `"key": "a", "value": "b"`, ""},
	{"file.serialize", "/f", `"dataset": {"a": 1}, "formatter": "json"`, ""},
	{"file.copy", "/b", `"source": "/a"`, ""},
	{"file.recurse", "/srv/app/d", `"source": "salt://a"`, ""},
	{"file.line", "/f", `"mode": "insert", "location": "end", "content": "a"`, ""},
	{"cmd.run", "make", `"creates": "/a"`, ""},
	{"pkg.installed", "nginx", "", ""},
	{"virtualenv.managed", "/srv/venv", `"pip_pkgs": ["a"]`, ""},
	{"cron.present", "/bin/job", "", ""},
	{"iptables.append", "x", `"chain": "INPUT", "jump": "ACCEPT"`, ""},
}

// An argument that nobody knows is never ignored: its declaration is refused, or is beside the state as a whole.
func TestAnArgumentThatNobodyKnows(t *testing.T) {
	t.Parallel()
	for _, l := range slices.Concat(lines, programLines, exactLines, dailyLines) {
		if got := outcome(t, l, `"frobnicate": "x"`); !strings.Contains(got, "frobnicate") {
			t.Errorf("%s %s: frobnicate is ignored:\n%s", l.function, l.args, got)
		}
	}
}

// TestEachArgumentOfSalt gives each argument that Salt documents, alone, with a value that is not Salt's own. What
// becomes of the declaration is another, the declaration is refused, or changesNothing has the argument with any value.
func TestEachArgumentOfSalt(t *testing.T) {
	t.Parallel()
	for _, function := range slices.Sorted(maps.Keys(documented)) {
		var args map[string]json.RawMessage
		text := documented[function]
		if slices.Contains([]string{"file.managed", "cmd.run", "pkg.installed"}, function) {
			text += ", " + ofAll
		}
		if err := json.Unmarshal([]byte("{"+text+"}"), &args); err != nil {
			t.Fatal(function, err)
		}
		base := baseOf(t, function)
		before := outcome(t, base, "")
		if strings.HasPrefix(before, "refused") {
			t.Errorf("%s %s is %s", function, base.args, before)
		}
		module, fun, _ := strings.Cut(function, ".")
		c := &conversion{Declaration: Declaration{State: module, Fun: fun}}
		for _, name := range slices.Sorted(maps.Keys(args)) {
			got := outcome(t, base, strconv.Quote(name)+": "+string(args[name]))
			was := "taken"
			switch {
			case strings.HasPrefix(got, "refused"):
				was = got
			case strings.Count(got, "# note:") > strings.Count(before, "# note:"):
				was = "noted"
			case got == before && c.isIgnored(name, []any{}):
				was = "ignored"
			case got == before && alike[function+" "+name] != "":
				was = "as without it: " + alike[function+" "+name]
			case got == before:
				t.Errorf("%s: the argument %s: %s changes nothing, and no reason says why", function, name, args[name])
			}
			t.Logf("%s %s: %s", function, name, was)
		}
	}
}

// alike are arguments that rules read, and that make no difference for the declarations of this test, with the reason.
var alike = map[string]string{
	"cmd.run python_shell":                  "the command has no characters that a shell reads",
	"cmd.script shell":                      "the script begins with #!",
	"file.blockreplace insert_after_match":  "Salt does not read it with append_if_not_found",
	"file.blockreplace insert_before_match": "Salt does not read it with append_if_not_found",
	"file.directory exclude_pat":            "Salt reads it with clean or recurse",
	"file.directory max_depth":              "Salt reads it with recurse",
	"file.replace not_found_content":        "Salt reads it with append_if_not_found or prepend_if_not_found",
	"file.line match":                       "Salt does not read it with mode: insert",
	"user.present enforce_password":         "the user has no password here",
	"user.present password":                 "it is in the file with secrets",
	"user.absent purge":                     "it is the default of Salt",
	"git.latest branch":                     "the clone is on no branch in any case, which TestNotesOnAllSuchStates has",
	"file.managed follow_symlinks":          "it is the default of Salt, and TestNotesOnAllSuchStates has the other value",
}

// ofAll are arguments of all functions, which are tried with some of them. For prereq and check_cmd there is no counterpart.
const ofAll = `"order": 5, "saltenv": "dev", "fire_event": true, "parallel": true, "reload_modules": true,
	"failhard": true, "retry": true, "check_cmd": "true", "unless": "true", "onlyif": "true", "prerequired": [{"test": "other"}], "prereq": [{"test": "other"}]`

// documented are the arguments that Salt documents for its functions, with a value that is not the default.
var documented = map[string]string{
	"file.managed":      `"source_hash": "x", "source_hash_name": "x", "keep_source": false, "user": "a", "group": "a", "mode": "0600", "attrs": "i", "template": "jinja", "makedirs": true, "dir_mode": "0700", "context": {"a": 1}, "defaults": {"a": 1}, "replace": false, "backup": "minion", "show_changes": false, "create": false, "tmp_dir": "/t", "tmp_ext": ".x", "contents_pillar": "motd", "contents_newline": false, "contents_delimiter": ".", "encoding": "latin-1", "encoding_errors": "ignore", "allow_empty": false, "follow_symlinks": true, "skip_verify": true, "selinux": {"a": 1}, "verify_ssl": false, "use_etag": true`,
	"file.directory":    `"user": "a", "group": "a", "recurse": ["user"], "max_depth": 1, "dir_mode": "0700", "file_mode": "0600", "makedirs": true, "clean": true, "exclude_pat": "x", "follow_symlinks": true, "force": true, "backupname": "x", "allow_symlink": false, "children_only": true`,
	"file.recurse":      `"keep_source": false, "clean": true, "user": "a", "group": "a", "dir_mode": "0700", "file_mode": "0600", "sym_mode": "0600", "template": "jinja", "context": {}, "replace": false, "defaults": {}, "include_empty": true, "backup": "minion", "include_pat": "x", "exclude_pat": "x", "maxdepth": 1, "keep_symlinks": true, "force_symlinks": true`,
	"file.symlink":      `"force": true, "backupname": "x", "makedirs": true, "user": "a", "group": "a", "mode": "0700", "copy_target_user": true, "copy_target_group": true`,
	"file.touch":        `"atime": 1, "mtime": 1, "makedirs": true`,
	"file.copy":         `"force": true, "makedirs": true, "preserve": true, "user": "a", "group": "a", "mode": "0600", "dir_mode": "0700", "subdir": true`,
	"file.rename":       `"force": true, "makedirs": true`,
	"file.serialize":    `"user": "a", "group": "a", "mode": "0600", "backup": "minion", "makedirs": true, "show_changes": false, "create": false, "merge_if_exists": true, "encoding": "latin-1", "encoding_errors": "x", "serializer_opts": [1], "formatter": "yaml"`,
	"file.append":       `"makedirs": true, "source": "salt://k", "source_hash": "x", "template": "mako", "sources": ["salt://k"], "defaults": {}, "context": {}, "ignore_whitespace": false`,
	"file.prepend":      `"makedirs": true, "source": "salt://k", "source_hash": "x", "template": "mako", "sources": ["salt://k"], "defaults": {}, "context": {}, "header": true`,
	"file.replace":      `"count": 1, "flags": 2, "bufsize": "file", "append_if_not_found": true, "prepend_if_not_found": true, "not_found_content": "x", "backup": false, "show_changes": false, "ignore_if_missing": true, "backslash_literal": true`,
	"file.line":         `"match": "x", "after": "x", "before": "x", "location": "start", "show_changes": false, "backup": true, "quiet": true, "indent": false, "create": true, "user": "a", "group": "a", "file_mode": "0600"`,
	"file.keyvalue":     `"key_values": {"a": 1}, "separator": ":", "append_if_not_found": true, "prepend_if_not_found": true, "search_only": true, "show_changes": false, "ignore_if_missing": true, "count": 2, "uncomment": "#", "key_ignore_case": true, "value_ignore_case": true, "create_if_missing": true`,
	"file.comment":      `"char": ";", "ignore_missing": true, "backup": false`,
	"file.uncomment":    `"char": ":", "backup": false`,
	"file.blockreplace": `"marker_start": "x", "marker_end": "y", "source": "salt://k", "source_hash": "x", "template": "mako", "sources": ["salt://k"], "defaults": {}, "context": {}, "content": "q", "append_if_not_found": false, "prepend_if_not_found": true, "backup": false, "show_changes": false, "append_newline": true, "insert_before_match": "x", "insert_after_match": "x"`,
	"archive.extracted": `"source_hash_name": "x", "source_hash_update": true, "skip_files_list_verify": true, "skip_verify": true, "password": "x", "options": "v", "list_options": "v", "force": true, "overwrite": true, "clean": true, "clean_parent": true, "user": "a", "group": "a", "if_missing": "/x", "trim_output": true, "use_cmd_unzip": true, "extract_perms": false, "enforce_toplevel": true, "enforce_ownership_on": "/x", "archive_format": "tar", "keep_source": false, "use_etag": true`,

	"ini.options_present": `"separator": ":", "strict": true, "no_spaces": true, "encoding": "latin-1"`,
	"pkg.installed":       `"version": "1", "refresh": true, "cache_valid_time": 3600, "fromrepo": "x", "skip_verify": true, "skip_suggestions": true, "pkgs": ["b"], "sources": [{"a": "b"}], "allow_updates": true, "pkg_verify": true, "normalize": false, "ignore_epoch": true, "reinstall": true, "update_holds": true, "install_recommends": false, "only_upgrade": true, "hold": true, "resolve_capabilities": true`,
	"pkg.latest":          `"refresh": false, "cache_valid_time": 3600, "fromrepo": "x", "skip_verify": true, "pkgs": ["b"], "watch_flags": false, "install_recommends": false, "only_upgrade": true`,
	"pkg.removed":         `"version": "1", "pkgs": ["b"], "normalize": false, "ignore_epoch": true`,
	"pkg.purged":          `"version": "1", "pkgs": ["b"], "normalize": false`,
	"pkg.held":            `"version": "1", "replace": true`,
	"pkgrepo.managed":     `"ppa": "a/b", "ppa_auth": "a:b", "humanname": "x", "disabled": true, "enabled": false, "comps": "x", "architectures": "amd64", "dist": "x", "keyid": "x", "keyserver": "x", "key_url": "salt://a/c", "key_text": "x", "consolidate": true, "clean_file": true, "refresh": false, "refresh_db": false, "aptkey": false, "signedby": "/x", "allow_insecure_key": false`,
	"pkgrepo.absent":      `"ppa": "a/b", "ppa_auth": "a:b", "keyid": "x", "keyid_ppa": true, "keyserver": "x", "key_url": "x", "refresh": true, "clean_file": true`,
	"service.running":     `"enable": true, "sig": "x", "init_delay": 1, "no_block": true, "unmask": true, "unmask_runtime": true, "systemd_scope": true, "reload": true, "full_restart": true, "provider": "x"`,
	"service.dead":        `"enable": false, "sig": "x", "init_delay": 1, "no_block": true, "systemd_scope": true`,
	"service.enabled":     `"skip_verify": true`,
	"service.disabled":    `"skip_verify": true`,
	"service.masked":      `"runtime": true`,
	"cmd.run":             `"cwd": "/", "root": "/x", "runas": "a", "shell": "/bin/bash", "env": {"A": "b"}, "prepend_path": "/x", "stateful": true, "output_loglevel": "quiet", "hide_output": true, "timeout": 5, "ignore_timeout": true, "use_vt": true, "success_retcodes": [1], "success_stdout": ["x"], "success_stderr": ["x"], "umask": "077", "stdin": "x", "bg": true, "password": "x", "python_shell": false, "creates": "/z"`,
	"cmd.script":          `"template": "jinja", "context": {}, "defaults": {}, "cwd": "/", "shell": "/bin/bash", "env": {"A": "b"}, "stateful": true, "timeout": 5, "umask": "077", "use_vt": true, "output_loglevel": "quiet", "hide_output": true, "success_retcodes": [1], "password": "x", "source_hash": "x", "stdin": "x"`,
	"cron.present":        `"user": "a", "minute": 1, "hour": 1, "daymonth": 1, "month": 1, "dayweek": 1, "comment": "x", "commented": true, "identifier": "x", "special": "@daily"`,
	"cron.absent":         `"user": "a", "identifier": "x", "minute": 1, "special": "@daily"`,
	"user.present":        `"uid": 7, "gid": 700, "usergroup": false, "groups": ["a"], "optional_groups": ["a"], "remove_groups": false, "home": "/x", "createhome": false, "password": "!", "hash_password": true, "enforce_password": false, "empty_password": true, "shell": "/bin/sh", "unique": false, "system": true, "fullname": "x", "roomnumber": "1", "workphone": "1", "homephone": "1", "other": "1", "date": 1, "mindays": 1, "maxdays": 1, "inactdays": 1, "warndays": 1, "expire": 1, "nologinit": true, "password_lock": true, "allow_uid_change": true, "allow_gid_change": true, "gid_from_name": true, "loginclass": "x", "local": true`,
	"user.absent":         `"purge": false, "force": true`,
	"group.present":       `"gid": 11, "system": false, "addusers": ["a"], "delusers": ["a"], "members": ["a"], "non_unique": true, "local": true`,
	"group.absent":        `"local": true`,
	"ssh_auth.present":    `"comment": "x", "source": "salt://k", "options": ["no-pty"], "config": "/x", "fingerprint_hash_type": "md5"`,
	"ssh_auth.absent":     `"enc": "ed25519", "comment": "x", "source": "salt://k", "options": ["no-pty"], "config": "/x", "fingerprint_hash_type": "md5"`,
	"host.present":        `"clean": true, "comment": "x"`,
	"git.latest":          `"rev": "x", "branch": "x", "user": "a", "password": "x", "update_head": false, "force_checkout": true, "force_clone": true, "force_fetch": true, "force_reset": true, "submodules": true, "bare": true, "mirror": true, "remote": "x", "fetch_tags": false, "sync_tags": false, "depth": 1, "identity": "/x", "https_user": "a", "https_pass": "b", "refspec_branch": "x", "refspec_tag": "x", "output_encoding": "x"`,
	"pip.installed":       `"pkgs": ["b"], "requirements": "salt://req.txt", "log": "/x", "proxy": "x", "timeout": 1, "editable": "x", "find_links": "/x", "index_url": "https://e.org/i", "extra_index_url": "x", "no_index": true, "target": "/x", "download": "/x", "upgrade": true, "force_reinstall": true, "ignore_installed": true, "no_deps": true, "install_options": "x", "global_options": "x", "user": "a", "cwd": "/x", "pre_releases": true, "cert": "x", "env_vars": {}, "use_vt": true, "trusted_host": "x", "no_cache_dir": true, "extra_args": "x"`,
	"virtualenv.managed":  `"venv_bin": "x", "requirements": "salt://req.txt", "system_site_packages": true, "distribute": true, "clear": true, "python": "/x/python3.9", "extra_search_dir": "x", "never_download": true, "prompt": "x", "user": "a", "cwd": "/x", "index_url": "https://e.org/i", "extra_index_url": "x", "pre_releases": true, "no_deps": true, "proxy": "x", "use_vt": true, "env_vars": {}, "pip_upgrade": true, "pip_no_cache_dir": true`,
	"sysctl.present":      `"config": "/x", "ignore": true`,
	"timezone.system":     `"utc": false`,
	"mount.mounted":       `"mkmnt": false, "opts": "ro", "dump": 1, "pass_num": 1, "config": "/x", "persist": false, "mount": false, "user": "a", "match_on": ["device"], "device_name_regex": ["x"], "extra_mount_invisible_options": ["x"], "extra_mount_invisible_keys": ["x"], "extra_mount_ignore_fs_keys": {}, "extra_mount_translate_options": {}, "hidden_opts": ["x"], "bind_mount_copy_active_opts": false`,
	"kmod.present":        `"persist": true, "mods": ["a"]`,
	"gem.installed":       `"ruby": "x", "gem_bin": "x", "rdoc": true, "ri": true, "pre_releases": true, "proxy": "x", "source": "x"`,
	"npm.installed":       `"pkgs": ["b"], "dir": "/x", "user": "a", "force_reinstall": true, "registry": "x", "env": ["x"]`,
	"selinux.boolean":     `"persist": false`,
	"iptables.append":     `"table": "nat", "family": "ipv6", "save": true, "dport": 1, "sport": 1, "proto": "udp", "protocol": "udp", "match": "tcp", "comment": "x", "source": "10.0.0.1", "rules": []`,
	"debconf.set":         `"data": {"a/b": {"type": "string", "value": "x"}}`,
	"module.run":          `"returner": "x"`,
}

// An argument with the value that Salt takes without it makes no difference.
func TestArgumentsWithTheValueThatSaltTakes(t *testing.T) {
	t.Parallel()
	for _, of := range slices.Sorted(maps.Keys(changesNothing)) {
		for _, function := range slices.Sorted(maps.Keys(documented)) {
			if module, _, _ := strings.Cut(function, "."); of != function && of != module {
				continue
			}
			base := baseOf(t, function)
			before := outcome(t, base, "")
			for argument := range strings.FieldsSeq(changesNothing[of]) {
				name, value, isDefault := strings.Cut(argument, "=")
				if !isDefault || !strings.Contains(documented[function], strconv.Quote(name)) || strings.Contains(base.args, strconv.Quote(name)) {
					continue
				}
				raw := strconv.Quote(value)
				if _, err := strconv.Atoi(value); err == nil || value == "True" || value == "False" {
					raw = strings.ToLower(value)
				}
				if got := outcome(t, base, strconv.Quote(name)+": "+raw); got != before {
					t.Errorf("%s %s became\n%s, and without it\n%s", function, argument, got, before)
				}
			}
		}
	}
}
