package main

import "github.com/spf13/pflag"

// flagsOfSalt has what stands here for flags of Salt, by their names and letters.
var flagsOfSalt = map[string]string{
	"G": withoutFlag + "'G@os:debian'", "grain": withoutFlag + "'G@os:debian'",
	"P": withoutFlag + "'P@os:(debian|ubuntu)'", "grain-pcre": withoutFlag + "'P@os:(debian|ubuntu)'",
	"I": withoutFlag + "'I@role:web'", "pillar": withoutFlag + "'I@role:web'",
	"L": withoutFlag + "L@web-01,web-02", "list": withoutFlag + "L@web-01,web-02",
	"E": withoutFlag + `'E@web-\d+'`, "pcre": withoutFlag + `'E@web-\d+'`,
	"C": withoutFlag + "'G@os:debian and web-*'", "compound": withoutFlag + "'G@os:debian and web-*'",
	"N": withoutFlag + "N@web", "nodegroup": withoutFlag + "N@web",
	"S": withoutFlag + "S@10.0.0.0/8", "ipcidr": withoutFlag + "S@10.0.0.0/8",
	"b": "write --batch 10%", "batch-size": "write --batch 10%",
	"t": "write --timeout 90s", "out": "write --output json, or -o json", "static": "leave it out, or write -o json",
	"v": showsAll, "verbose": showsAll, "l": showsWhy, "log-level": showsWhy,
	"local": "write zester PEEL FUNCTION: any host can be asked from here",
}

const (
	withoutFlag = "a target says what it is: "
	showsAll    = "leave it out: zester job show JID has all of a job"
	showsWhy    = "zester why and zester job show say what happened"
)

// functionsOfSalt has what stands here for functions of Salt that this command line alone has under another name.
var functionsOfSalt = map[string]string{
	"cmd.run_all": "cmd.run has the output and the exit code", "cmd.retcode": "cmd.run has the exit code",
	"cmd.run_stdout": "cmd.run", "test.version": "zester peel list -o wide",
	"pkg.upgrade":       "zester TARGET pkg.latest NAME, or cmd.run 'apt-get -y upgrade'",
	"pkg.list_upgrades": "pkg.upgrades",
	"pkg.list_pkgs":     "pkg.list", "pkg.refresh_db": "zester TARGET cmd.run 'apt-get update'",
	"network.ip_addrs": "facts.get ipv4", "disk.usage": "zester TARGET cmd.run 'df -h'",
	"status.uptime": "zester TARGET cmd.run uptime", "status.loadavg": "zester TARGET cmd.run uptime",
	"cp.get_file":    "zester TARGET file.managed PATH content=@FILE",
	"cp.push":        "zester TARGET file.read PATH",
	"grains.setval":  "facts: in peel.yaml on the host, or a setting in the repo",
	"grains.ls":      "facts.items",
	"mine.get":       "settings in the repo, or facts: zester peel facts",
	"user.add":       "zester TARGET user.present NAME",
	"service.enable": "zester TARGET service.enabled NAME", "service.disable": "zester TARGET service.disabled NAME",
	"sys.list_modules": "sys.list_functions", "state.test": "state.apply test=true",
	"jobs.list_jobs": "zester job list", "jobs.active": "zester job active", "jobs.lookup_jid": "zester job show JID",
	"manage.status": "zester peel list", "manage.up": "zester peel list", "manage.down": "zester peel list",
}

// hintForSalt returns what stands here for a flag of Salt that is not known, or an empty text.
func hintForSalt(unknown *pflag.NotExistError) string {
	if here := flagsOfSalt[unknown.GetSpecifiedName()]; here != "" {
		return "; " + here
	}
	return ""
}
