package movein

import (
	"slices"
	"strings"
)

// changesNothing has the arguments of Salt that change nothing on a host here, by function and by module. The empty key
// is for all functions. NAME stands for any value. NAME=VALUE stands for that value alone, as Python prints it: it is
// the default of Salt. Some say how Salt itself works, such as order and reload_modules; others are read with the
// argument that they belong to, or have an effect here in any case. An argument that is neither here nor read by its
// rule is refused.
var changesNothing = map[string]string{
	"": "order saltenv fire_event parallel=False reload_modules reload_grains reload_pillar aggregate " +
		"prerequired use use_in clean=False",
	"archive": "archive_format keep_source enforce_toplevel source_hash source_hash_update " +
		"source_hash_name trim_output skip_verify overwrite",
	"archive.extracted": "force=False clean=False clean_parent=False extract_perms=True use_etag=False " +
		"skip_files_list_verify=False",
	"cmd": "output_loglevel hide_output=False use_vt=False ignore_timeout=False bg=False " +
		"stateful=False prepend_path= root= rstrip=True",
	"cmd.script":      "template context defaults source_hash",
	"cmd.wait_script": "template context defaults source_hash",
	"cron":            "comment",
	"cron.absent":     "minute hour daymonth month dayweek special",
	"cron.present":    "identifier=False",
	"file": "backup keep_source source_hash encoding_errors makedirs=False show_changes=True " +
		"skip_verify=False",
	"file.append":       "template context defaults ignore_whitespace=True",
	"file.blockreplace": "template",
	"file.comment":      "ignore_missing",
	"file.copy":         "subdir=False",
	"file.directory":    "force=False allow_symlink=True children_only=False",
	"file.exists":       "makedirs",
	"file.keyvalue": "prepend_if_not_found=False count=1 key_ignore_case=False value_ignore_case=False " +
		"create_if_missing=False",
	"file.line": "create quiet=False",
	"file.managed": "template context defaults source_hash_name skip_verify dir_mode contents_delimiter " +
		"contents_newline allow_empty create=True tmp_dir= tmp_ext= verify_ssl=True " +
		"use_etag=False show_diff=True",
	"file.prepend": "template context defaults",
	"file.recurse": "template context defaults makedirs include_empty keep_symlinks force_symlinks " +
		"replace=True",
	"file.replace":   "bufsize is_pattern=False",
	"file.serialize": "create=True merge_if_exists=False",
	"file.symlink":   "mode copy_target_user=False copy_target_group=False",
	"gem.installed":  "rdoc=False ri=False pre_releases=False",
	"git.latest": "force_fetch fetch_tags force_clone=False submodules=False bare=False mirror=False " +
		"update_head=True remote=origin sync_tags=True refspec_branch=* refspec_tag=*",
	"group":        "non_unique=False local=False",
	"host.present": "comment=",
	"ini":          "strict=False",
	"iptables":     "save=False",
	"mount.swap":   "config=/etc/fstab",
	"mount.mounted": "match_on device_name_regex extra_mount_invisible_options hidden_opts " +
		"extra_mount_invisible_keys extra_mount_ignore_fs_keys extra_mount_translate_options " +
		"bind_mount_copy_active_opts config=/etc/fstab",
	"npm.installed": "force_reinstall=False",
	"pip.installed": "upgrade=False force_reinstall=False ignore_installed=False no_deps=False " +
		"pre_releases=False use_vt=False no_cache_dir=False no_index=False",
	"pkg":      "install_recommends=True only_upgrade=False skip_verify=False",
	"pkg.held": "replace=False",
	"pkg.installed": "skip_suggestions allow_updates=False pkg_verify=False normalize=True " +
		"reinstall=False update_holds=False resolve_capabilities=False",
	"pkg.latest":      "cache_valid_time",
	"pkgrepo":         "humanname refresh refresh_db aptkey",
	"pkgrepo.absent":  "keyserver key_url disabled clean_file",
	"pkgrepo.managed": "enabled=True consolidate=False clean_file=False ppa_auth= allow_insecure_key=True",
	"service":         "sig= restart=True no_block=False full_restart=False unmask_runtime=False systemd_scope=False",
	"service.masked":  "runtime=False",
	"ssh_auth":        "fingerprint_hash_type source_hash enc comment",
	"ssh_known_hosts": "timeout",
	"sysctl.present":  "ignore=False",
	"user.absent":     "force=False",
	"user.present": "roomnumber= workphone= homephone= other= password_lock=False " +
		"allow_uid_change allow_gid_change empty_password=False hash_password=False unique=True " +
		"usergroup=True nologinit=False local=False",
	"virtualenv.managed": "venv_bin cwd system_site_packages=False pip_upgrade=False clear=False distribute=False " +
		"no_deps=False pre_releases=False use_vt=False pip_no_cache_dir=False",
}

// isIgnored reports whether an argument with a value changes nothing here.
func (c *conversion) isIgnored(name string, value any) bool {
	for _, of := range []string{"", c.State, c.Function()} {
		known := strings.Fields(changesNothing[of])
		if slices.Contains(known, name) || isScalar(value) && slices.Contains(known, name+"="+plain(value)) {
			return true
		}
	}
	return false
}
