package movein

import (
	"slices"
	"strings"
)

// changesNothing has the arguments of Salt that change nothing on a host here, with the reason, by function and by
// module, and below "" those of all functions. An argument that is neither here nor read by its rule, and that has not
// the value that Salt takes without it, is refused.
var changesNothing = map[string]map[string]string{
	"": {
		"order": "the lowstate is in the order", "saltenv": "the files are those of --roots",
		"fire_event": "the bus of Salt has no part in it", "parallel": "states run one after another",
		"reload_modules": "no module of Salt is loaded", "reload_grains": "facts are read again by themselves",
		"reload_pillar": "the settings of a run do not change", "aggregate": "packages are installed together anyway",
		"use": "Salt has copied the arguments already", "use_in": "Salt has copied the arguments already",
	},
	"file": {
		"backup":          "a peel keeps what a state replaces",
		"keep_source":     "the cache of the minion is not used",
		"source_hash":     "the copy of the file is what Salt serves",
		"encoding_errors": "there is no encoding without the argument encoding",
	},
	"file.managed": {
		"template": "a template is converted, rendered or refused", "context": "a template has its values in vars",
		"defaults": "a template has its values in vars", "source_hash_name": "the hash is given in digits",
		"skip_verify": "what comes from https is always verified", "dir_mode": "without makedirs no directory is made",
		"contents_delimiter": "the value in the pillar is found with it",
		"contents_newline":   "the content has it or not",
		"allow_empty":        "an empty content is written, where Salt fails with false",
	},
	"file.recurse": {
		"template": "a directory of templates is refused", "context": "a directory of templates is refused",
		"defaults": "a directory of templates is refused", "makedirs": "the directories above are made anyway",
		"include_empty":  "a directory that has no file is noted",
		"keep_symlinks":  "a directory with links is refused",
		"force_symlinks": "a directory with links is refused",
	},
	"file.symlink":      {"mode": "without makedirs no directory is made"},
	"file.replace":      {"bufsize": "the file is read as a whole"},
	"file.comment":      {"ignore_missing": "a file without such a line is left, where Salt fails with false"},
	"file.exists":       {"makedirs": "the state makes nothing"},
	"file.line":         {"create": "a file that is missing is made, or the state fails"},
	"file.blockreplace": {"template": "a template is refused"},
	"archive": {
		"archive_format": "the name of the archive says it", "keep_source": "the cache of the minion is not used",
		"enforce_toplevel":   "an archive of several folders is extracted, too",
		"source_hash":        "the copy is what Salt serves",
		"source_hash_update": "another archive is always extracted", "source_hash_name": "the hash is given in digits",
		"trim_output": "it shortens what people see", "skip_verify": "what comes from https is always verified",
		"overwrite": "a note says when files are written again",
	},
	"pkgrepo": {
		"humanname": "APT does not have it", "refresh": "lists are refreshed after a change of a repository",
		"refresh_db": "lists are refreshed after a change of a repository",
		"clean_file": "the repository has a file of its own", "aptkey": "the key is one of this repository alone",
	},
	"pkgrepo.absent": {
		"keyserver": "no key is fetched", "key_url": "no key is fetched", "disabled": "the repository is removed",
	},
	"pkg.latest": {"cache_valid_time": "lists are refreshed in each run"},
	"cmd":        {"output_loglevel": "the log of Salt has no part in it"},
	"cmd.script": {
		"template": "a template is refused", "context": "a template is refused", "defaults": "a template is refused",
		"source_hash": "the script is what Salt serves",
	},
	"cmd.wait_script": {
		"template": "a template is refused", "context": "a template is refused", "defaults": "a template is refused",
		"source_hash": "the script is what Salt serves",
	},
	"cron": {"comment": "it is text for people"},
	"cron.absent": {
		"minute": "the file of the job is removed", "hour": "the file of the job is removed",
		"daymonth": "the file of the job is removed", "month": "the file of the job is removed",
		"dayweek": "the file of the job is removed", "special": "the file of the job is removed",
	},
	"user.present": {
		"allow_uid_change": "a note says what happens without it",
		"allow_gid_change": "a note says what happens without it",
	},
	"ssh_auth": {
		"fingerprint_hash_type": "it changes what people see", "source_hash": "the keys are what Salt serves",
		"enc": "lines of a file have it", "comment": "lines of a file have it",
	},
	"git.latest": {
		"force_fetch": "what is fetched replaces what was fetched", "fetch_tags": "all tags are fetched",
	},
	"mount.mounted": {
		"match_on": "the directory finds the line", "device_name_regex": "nothing is mounted again",
		"extra_mount_invisible_options": "nothing is mounted again", "hidden_opts": "nothing is mounted again",
		"extra_mount_invisible_keys":    "nothing is mounted again",
		"extra_mount_ignore_fs_keys":    "nothing is mounted again",
		"extra_mount_translate_options": "nothing is mounted again",
		"bind_mount_copy_active_opts":   "nothing is mounted again",
	},
	"pip.installed": {"log": "pip has no log of its own"},
	"virtualenv.managed": {
		"venv_bin": "the environment has the same packages", "cwd": "requirements are a file of Salt",
	},
}

// saltDefaults has what Salt takes for arguments that are not given, by function and module as changesNothing has them,
// as Python prints it.
var saltDefaults = map[string]string{
	"file":           "makedirs=False show_changes=True skip_verify=False",
	"file.managed":   "create=True tmp_dir= tmp_ext= verify_ssl=True use_etag=False show_diff=True",
	"file.directory": "force=False allow_symlink=True children_only=False",
	"file.recurse":   "replace=True",
	"file.symlink":   "copy_target_user=False copy_target_group=False",
	"file.append":    "template=jinja ignore_whitespace=True",
	"file.prepend":   "template=jinja",
	"file.serialize": "create=True merge_if_exists=False",
	"file.copy":      "subdir=False",
	"file.replace":   "count=0 flags=8 append_if_not_found=False prepend_if_not_found=False backslash_literal=False",
	"file.line":      "quiet=False",
	"file.keyvalue": "prepend_if_not_found=False count=1 key_ignore_case=False value_ignore_case=False " +
		"create_if_missing=False",
	"file.blockreplace": "prepend_if_not_found=False",
	"archive.extracted": "force=False clean=False clean_parent=False extract_perms=True use_etag=False " +
		"skip_files_list_verify=False",
	"pkg": "install_recommends=True only_upgrade=False hold=False skip_verify=False",
	"pkg.installed": "skip_suggestions=False allow_updates=False pkg_verify=False normalize=True reinstall=False " +
		"update_holds=False resolve_capabilities=False",
	"pkg.held":        "replace=False",
	"pkgrepo.managed": "enabled=True consolidate=False ppa_auth= allow_insecure_key=True",
	"service":         "sig= no_block=False full_restart=False unmask_runtime=False systemd_scope=False",
	"service.masked":  "runtime=False",
	"cmd": "hide_output=False use_vt=False ignore_timeout=False bg=False stateful=False prepend_path= root= " +
		"rstrip=True",
	"cron.present": "commented=False identifier=False",
	"user.present": "empty_password=False hash_password=False unique=True usergroup=True nologinit=False " +
		"password_lock=False local=False",
	"user.absent":  "force=False",
	"group":        "non_unique=False local=False",
	"host.present": "comment=",
	"git.latest": "force_clone=False submodules=False bare=False mirror=False update_head=True remote=origin " +
		"sync_tags=True refspec_branch=* refspec_tag=*",
	"pip.installed": "upgrade=False force_reinstall=False ignore_installed=False no_deps=False pre_releases=False " +
		"use_vt=False no_cache_dir=False no_index=False",
	"virtualenv.managed": "system_site_packages=False pip_upgrade=False clear=False distribute=False no_deps=False " +
		"pre_releases=False use_vt=False pip_no_cache_dir=False",
	"sysctl.present": "ignore=False",
	"mount.mounted":  "config=/etc/fstab mount=True",
	"ini":            "strict=False",
	"gem.installed":  "rdoc=False ri=False pre_releases=False",
	"npm.installed":  "force_reinstall=False",
	"iptables":       "save=False",
}

// isIgnored reports whether an argument with a value changes nothing here.
func (c *conversion) isIgnored(name string, value any) bool {
	for _, of := range []string{"", c.State, c.Function()} {
		isDefault := isScalar(value) && slices.Contains(strings.Fields(saltDefaults[of]), name+"="+plain(value))
		if changesNothing[of][name] != "" || isDefault {
			return true
		}
	}
	return false
}
