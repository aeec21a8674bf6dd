package movein

// A rule says what a function of Salt is here.
type rule struct {
	function string // here; empty: the declaration does nothing
	main     string // the argument that gets Salt's name
	args     map[string]argument
	fixed    map[string]any
	before   func(*conversion) error // reads what needs more than a new name
}

// An argument is what an argument of Salt is here.
type argument struct {
	here string
	kind kind
}

var owner = map[string]argument{
	"user": {"user", asText}, "group": {"group", asText}, "makedirs": {"makedirs", asBool}, "mode": {"mode", asMode},
}

var packages = map[string]argument{
	"version": {"version", asText}, "install_recommends": {"", noted}, "only_upgrade": {"", noted}, "hold": {"", noted},
	"skip_verify": {"", noted},
}

var units = map[string]argument{
	"enable": {"enable", asBool}, "reload": {"reload", asBool}, "sig": {"", noted}, "unmask": {"unmask", asBool},
	"init_delay": {"", noted}, "no_block": {"", noted}, "full_restart": {"", noted}, "provider": {"", noted},
}

var commands = map[string]argument{
	"cwd": {"cwd", asText}, "runas": {"user", asText}, "env": {"env", asEnv},
	"stdin": {"stdin", asText}, "creates": {"creates", asText}, "hide_output": {"", noted},
	"use_vt": {"", noted},
}

var account = map[string]argument{
	"uid": {"uid", asNumber}, "groups": {"groups", asList}, "home": {"home", asText}, "shell": {"shell", asText},
	"fullname": {"comment", asText}, "password": {"password", asText}, "system": {"system", asBool},
	"createhome": {"create_home", asBool}, "empty_password": {"", noted}, "unique": {"", noted},
	"usergroup": {"", noted},
}

var sshKeys = map[string]argument{"user": {"user", asText}}

// rules has the functions of Salt by their names.
var rules = map[string]rule{
	"file.managed": {function: "file.managed", main: "path", args: owner, before: managed},
	"file.directory": {function: "file.directory", main: "path", args: map[string]argument{
		"user": {"user", asText}, "group": {"group", asText}, "makedirs": {"makedirs", asBool},
		"mode": {"mode", asMode}, "file_mode": {"file_mode", asMode},
		"follow_symlinks": {"follow", asBool},
	}, before: directory},
	"file.recurse": {function: "file.recurse", main: "path", args: map[string]argument{
		"user": {"user", asText}, "group": {"group", asText}, "file_mode": {"file_mode", asMode},
		"dir_mode": {"dir_mode", asMode},
		"clean":    {"clean", asBool},
	}, before: recurse},
	"file.symlink": {function: "file.symlink", main: "path", args: map[string]argument{
		"target": {"target", asText}, "makedirs": {"makedirs", asBool}, "force": {"force", asBool},
	}, before: linkOwner},
	"file.absent": {function: "file.absent", main: "path"},
	"archive.extracted": {function: "archive.extracted", main: "path", args: map[string]argument{
		"user": {"user", asText}, "group": {"group", asText},
	}, before: archive, fixed: map[string]any{"makedirs": true}},
	"file.touch":          {function: "file.managed", main: "path", args: owner, fixed: onlyMade, before: touched},
	"file.exists":         {function: "cmd.run", before: exists},
	"file.accumulated":    {before: accumulated},
	"file.copy":           {function: "cmd.run", before: copied},
	"file.prepend":        {function: "file.line", main: "path", before: prepended},
	"file.rename":         {function: "cmd.run", before: renamed},
	"file.serialize":      {function: "file.managed", main: "path", args: owner, before: serialized},
	"file.append":         {function: "file.line", main: "path", before: appended},
	"file.replace":        {function: "file.replace", main: "path", before: replaced},
	"file.line":           {function: "file.line", main: "path", before: oneLine},
	"ini.options_present": {function: "file.line", before: options},
	"file.keyvalue":       {function: "file.line", main: "path", before: keyValue},
	"file.comment":        {function: "file.replace", main: "path", before: commented},
	"file.uncomment":      {function: "file.replace", main: "path", before: uncommented},
	"file.blockreplace":   {function: "file.block", main: "path", before: blockReplaced},
	"module.run":          {function: "cmd.run", before: module},
	"module.wait":         {function: "cmd.run", before: module},
	"pkg.installed":       {function: "pkg.installed", main: "name", args: packages, before: names},
	"pkg.latest":          {function: "pkg.latest", main: "name", args: packages, before: newest},
	"pkg.removed":         {function: "pkg.removed", main: "name", before: names},
	"pkg.purged":          {function: "pkg.removed", main: "name", before: names, fixed: map[string]any{"purge": true}},
	"pkgrepo.absent":      {function: "file.absent", before: noRepository},
	"pkgrepo.managed":     {function: "pkgrepo.managed", main: "file", before: repository},
	"service.running":     {function: "service.running", main: "name", args: units},
	"service.dead":        {function: "service.dead", main: "name", args: units},
	"service.enabled":     {function: "service.enabled", main: "name", args: units},
	"service.disabled":    {function: "service.disabled", main: "name", args: units},
	"service.masked":      {function: "cmd.run", before: masked},
	"cmd.run":             {function: "cmd.run", main: "command", args: commands, before: command},
	"cmd.wait":            {function: "cmd.run", main: "command", args: commands, before: command},
	"cron.present":        {function: "cron.present", before: cronPresent},
	"user.present":        {function: "user.present", main: "name", args: account, before: user},
	"user.absent": {function: "user.absent", main: "name", args: map[string]argument{
		"purge": {"remove_home", asBool}, "force": {"", noted},
	}},
	"group.present": {function: "group.present", main: "name", args: map[string]argument{
		"gid": {"gid", asNumber}, "system": {"system", asBool}, "addusers": {"members", asList},
		"members": {"members", asList},
	}, before: members},
	"group.absent":     {function: "group.absent", main: "name"},
	"ssh_auth.present": {function: "ssh_auth.present", args: sshKeys, before: keys},
	"ssh_auth.absent":  {function: "ssh_auth.absent", args: sshKeys, before: keys},
	"host.absent":      {function: "file.replace", before: noAddress, fixed: map[string]any{"path": "/etc/hosts"}},
	"host.present": {function: "host.present", main: "name", args: map[string]argument{
		"ip": {"ip", asText},
	}, before: address},
	"git.latest": {function: "git.latest", main: "url", args: map[string]argument{
		"target": {"path", asText}, "rev": {"rev", asText}, "user": {"user", asText}, "force_clone": {"", noted},
	}, before: clone},
	"pip.installed": {function: "pip.installed", main: "name", args: map[string]argument{
		"user": {"user", asText}, "index_url": {"index", asText}, "log": {"", noted},
	}, before: pip},
	"ssh_known_hosts.absent":  {function: "cmd.run", before: unknownHost},
	"ssh_known_hosts.present": {function: "cmd.run", before: knownHost},
	"sysctl.present": {function: "sysctl.present", main: "name", args: map[string]argument{
		"value": {"value", asText}, "config": {"", noted},
	}},
	"timezone.system": {function: "timezone.system", main: "name", before: zone},
	"mount.mounted": {function: "mount.mounted", main: "name", args: map[string]argument{
		"device": {"device", asText}, "fstype": {"fstype", asText}, "dump": {"dump", asNumber},
		"pass_num": {"pass", asNumber},
		"persist":  {"persist", asBool}, "mkmnt": {"makedir", asBool}, "config": {"", noted},
	}, before: mountOptions},
	"debconf.set":            {function: "debconf.set", main: "name", before: answers},
	"alternatives.install":   {function: "cmd.run", before: alternative},
	"alternatives.set":       {function: "cmd.run", before: alternative},
	"cmd.script":             {function: "cmd.run", args: commands, before: script},
	"cmd.watch":              {function: "cmd.run", main: "command", args: commands, before: command},
	"cmd.wait_script":        {function: "cmd.run", args: commands, before: script},
	"cron.absent":            {function: "cron.absent", before: noCron},
	"cron.env_present":       {before: cronVariable},
	"gem.installed":          {function: "cmd.run", args: map[string]argument{"user": {"user", asText}}, before: gem},
	"iptables.append":        {function: "cmd.run", before: firewall},
	"iptables.chain_present": {function: "cmd.run", before: firewall},
	"iptables.insert":        {function: "cmd.run", before: firewall},
	"iptables.set_policy":    {function: "cmd.run", before: firewall},
	"kmod.present":           {function: "cmd.run", before: kernelModules},
	"locale.present":         {function: "cmd.run", before: localeMade},
	"locale.system":          {function: "cmd.run", before: localeUsed},
	"apache_conf.disabled":   {function: "cmd.run", before: apache("conf", "conf-enabled", ".conf")},
	"apache_conf.enabled":    {function: "cmd.run", before: apache("conf", "conf-enabled", ".conf")},
	"apache_module.disabled": {function: "cmd.run", before: apache("mod", "mods-enabled", ".load")},
	"apache_module.enabled":  {function: "cmd.run", before: apache("mod", "mods-enabled", ".load")},
	"apache_site.disabled":   {function: "cmd.run", before: apache("site", "sites-enabled", ".conf")},
	"apache_site.enabled":    {function: "cmd.run", before: apache("site", "sites-enabled", ".conf")},
	"mount.unmounted":        {function: "cmd.run", before: unmounted},
	"mount.swap":             {function: "cmd.run", before: swap},
	"npm.installed": {function: "cmd.run", args: map[string]argument{
		"user": {"user", asText}, "env": {"env", asEnv},
	}, before: npm},
	"pkg.held":        {function: "cmd.run", before: held},
	"selinux.boolean": {function: "cmd.run", before: boolean},
	"virtualenv.managed": {function: "pip.installed", args: map[string]argument{
		"user": {"user", asText}, "runas": {"user", asText}, "index_url": {"index", asText},
		"system_site_packages": {"", noted}, "pip_upgrade": {"", noted},
	}, before: environment},
	"stateconf.set":                {before: nothing},
	"test.nop":                     {before: nothing},
	"test.show_notification":       {before: nothing},
	"test.succeed_without_changes": {before: nothing},
}

var onlyMade = map[string]any{"content": "", "replace": false}
