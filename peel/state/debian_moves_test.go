//go:build linux && debian

package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// deployments adds states that go through links and directories of a user who deploys.
func (w *world) deployments() {
	if w.maybe() {
		return
	}
	w.before = append(w.before, fmt.Sprintf("chmod 755 %s; mkdir -p %[1]s/app/releases/1 %[1]s/data; ln -s releases/1 %[1]s/app/current; ln -s data %[1]s/www; ln -s data %[1]s/www2; chown -hR nobody: %[1]s/app", w.dir))
	if w.maybe() {
		w.before = append(w.before, w.one(fmt.Sprintf("echo by hand > %s/app/current/conf", w.dir), fmt.Sprintf("rm %s/app/current; ln -s /etc %[1]s/app/current; chown -h nobody: %[1]s/app/current", w.dir)))
	}
	follow := w.one("true", "true", "false")
	for i, call := range []string{
		"file.managed: {path: %s/app/current/conf, content: x, follow: %s}",
		"file.managed: {path: %s/app/current/own, content: x, user: nobody, mode: '0600', follow: %s}",
		"file.line: {path: %s/app/current/conf, line: 'y = 1', follow: %s}",
		"file.directory: {path: %s/www, mode: '0750', follow: %s}",
		"file.recurse: {path: %s/www2, source: files/copied, follow: %s}",
		"file.directory: {path: %s/app/current/log, user: nobody, makedirs: true, follow: %s}",
		"file.managed: {path: %s/app/third, content: x, user: daemon, follow: %s}",
		"file.symlink: {path: %s/app/current/to, target: conf, follow: %s}",
		"file.absent: {path: %s/app/current/conf, follow: %s}",
	} {
		if (i == 0 || i == 8) && w.after["deploy2"]+w.after["deploy0"] != "" {
			continue // states of one file exclude each other
		}
		if i == 2 && w.after["deploy0"] != "" || w.r.IntN(3) == 0 {
			continue
		}
		w.add(fmt.Sprintf("deploy%d", i), fmt.Sprintf(call, w.dir, follow), "", "")
	}
}

// archives adds an archive, and a file of https that the host has already.
func (w *world) archives() {
	if w.maybe() {
		w.before = append(w.before, w.one("true", fmt.Sprintf("mkdir -p %s/zt/bin; echo other > %[1]s/zt/bin/run", w.dir), fmt.Sprintf("echo file > %s/zt", w.dir)))
		w.add("archive", fmt.Sprintf("archive.extracted: {path: %s/zt, source: files/world.tar, strip: %s, user: %s}", w.dir, w.one("0", "1"), w.one("root", "nobody", "ztacct")), "zt-acct", "")
		if w.maybe() {
			w.add("in-archive", fmt.Sprintf("file.managed: {path: %s/zt/conf, content: x}", w.dir), "archive", "")
		}
	}
	if w.maybe() {
		sum := sha256.Sum256([]byte("here\n"))
		w.before = append(w.before, fmt.Sprintf("echo here > %s/fetched; chmod %s %[1]s/fetched", w.dir, w.one("644", "600")))
		w.add("fetched", fmt.Sprintf("file.managed: {path: %s/fetched, source: 'https://no.invalid/f', sha256: %s, mode: '0644'}", w.dir, hex.EncodeToString(sum[:])), "", "")
	}
}

// reports adds commands that say whether they change something, or that run again for a file; several names; and units
// that are masked or end by themselves.
func (w *world) reports() {
	if w.maybe() {
		w.add("says", "cmd.run: {command: 'echo "+w.one("done", "nothing")+"', changed_if: {output: done}}", "", "")
	}
	if w.maybe() {
		w.before = append(w.before, w.one("true", fmt.Sprintf("touch %s/built", w.dir)))
		w.add("built-of", fmt.Sprintf("file.managed: {path: %s/built-of, content: x}", w.dir), "", "")
		w.add("built", fmt.Sprintf("cmd.run: {command: 'echo x >> %s/built', creates: %[1]s/built}", w.dir), "", ", watch: [built-of]")
	}
	if w.maybe() {
		w.states = append(w.states, fmt.Sprintf("several: {file.directory: {names: [%s/n/a, %[1]s/n/b], makedirs: true, mode: '0750'}}", w.dir))
	}
	if w.systemd && w.maybe() {
		w.before = append(w.before, "printf '[Service]\\nType=oneshot\\nExecStart=true\\n[Install]\\nWantedBy=multi-user.target\\n' > /etc/systemd/system/zt-once.service; systemctl daemon-reload; systemctl -q unmask zt-once; "+w.one("true", "systemctl start zt-once"))
		w.add("once", "service.running: {name: zt-once, enable: true}", "", "")
	}
	if w.systemd && w.maybe() {
		w.before = append(w.before, "mkdir -p /usr/local/lib/systemd/system; printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' > /usr/local/lib/systemd/system/zt-masked.service; systemctl daemon-reload; "+w.one("true", "systemctl mask zt-masked"))
		w.add("masked", "service.running: {name: zt-masked, unmask: true, enable: "+w.one("true", "false")+"}", "", "")
	}
}
