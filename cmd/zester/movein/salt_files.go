package movein

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/state/mustache"
)

// maxFile is the largest file that a config repo may have for a state, in bytes.
const maxFile = 8 << 20

// sources are the files that Salt serves, and those that are copied into the config repo.
type sources struct {
	roots    []fs.FS
	pushed   fs.FS             // MINION/files/PATH: what minions sent to the master by cp.push; may be nil
	copied   map[string][]byte // by their path in the repo
	programs map[string]bool   // the executable ones of these
	texts    string            // the folder of the repo for texts that are not as in the roots
	hidden   secrets           // what no file of the repo may have
}

// saltFiles is the folder of the repo for copies of files. They have the paths that Salt serves.
const saltFiles = "files"

func newSources(in SaltInput) *sources {
	s := &sources{
		roots: in.Roots, pushed: in.Pushed, copied: map[string][]byte{}, programs: map[string]bool{},
		hidden: pillarSecrets(in.Hosts),
	}
	taken := map[string]bool{}
	for _, root := range in.Roots {
		entries, _ := fs.ReadDir(root, ".") // a root without a list has no files either
		for _, e := range entries {
			taken[e.Name()] = true
		}
	}
	s.texts = path.Join(saltFiles, claim("converted", taken))
	return s
}

// A served file is one that Salt serves.
type served struct {
	name string // below the root
	text []byte
	mode string
}

// find returns the first file that exists. value is a source of Salt, or several.
func (s *sources) find(value any) (served, error) {
	names, ok := texts(value)
	if !ok {
		return served{}, refuse("argument source: a value of another form")
	}
	missing := "a file that is not below --roots"
	for _, name := range names {
		local, ok := strings.CutPrefix(name, "salt://")
		if !ok && strings.HasPrefix(name, "https://") {
			continue // what fromWeb did not take is not the first that is there
		}
		if !ok {
			return served{}, refuse("argument source: %s", "a file that is not salt://: "+
				"the file in files/, or https with sha256")
		}
		local, _, _ = strings.Cut(local, "?")
		local = path.Clean(strings.TrimPrefix(local, "|"))
		for _, root := range s.roots {
			info, err := fs.Stat(root, local)
			switch {
			case errors.Is(err, errLeadsOut):
				missing = leadsOut
				continue
			case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid):
				continue
			case errors.Is(err, fs.ErrPermission):
				return served{}, refuse("argument source: a file of --roots that you may not read")
			case err != nil:
				return served{}, err
			case info.IsDir():
				return served{}, refuse("argument source: a directory, where one file is wanted")
			case info.Size() > maxFile:
				return served{}, refuse("argument source: a file of more than 8 MiB")
			}
			text, err := fs.ReadFile(root, local)
			return served{local, text, modeOf(info)}, err
		}
	}
	return served{}, refuse("argument source: %s", missing)
}

// leadsOut is the reason why a source is not read.
const leadsOut = "a link that leads out of --roots: give the directory that it leads to as one more --roots, " +
	"or copy the file in the place of the link"

// copyFile copies a file of Salt into the repo and returns its path there.
func (c *conversion) copyFile(value any) (string, error) {
	f, err := c.source.find(value)
	if err != nil {
		return "", err
	}
	to, ok := c.add(saltFiles, f.name, f.text)
	if !ok {
		return "", refuse("a file with a secret")
	}
	return to, nil
}

// add copies a text into a folder of the repo, if the declaration is accepted, and returns its path there. Another text
// of the same name gets a path of its own. A text with a secret is not copied, and ok is false.
func (c *conversion) add(folder, name string, text []byte) (to string, ok bool) {
	if c.source.hidden.in(name) || c.source.hidden.in(string(text)) {
		return "", false
	}
	to = path.Join(folder, name)
	if before, taken := c.source.copied[to]; taken && string(before) != string(text) {
		to += "." + strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)), 16)
	}
	c.files[to] = text
	return to, true
}

// rendered returns the file of a host that its minion sent to the master by cp.push.
func (s *sources) rendered(host, file string) ([]byte, bool) {
	if s.pushed == nil {
		return nil, false
	}
	text, err := fs.ReadFile(s.pushed, path.Join(host, "files", path.Clean("/"+file)))
	return text, err == nil && len(text) <= maxFile
}

// foldersAbove returns the mode that Salt gives to the folders above a file: dir_mode if it is given. If not, it is the
// mode of the file, and whoever may read or write the file may enter the folders.
func (c *conversion) foldersAbove() string {
	if given, ok := c.left["dir_mode"]; ok {
		if mode, err := octal("dir_mode", given); err == nil {
			return plain(mode)
		}
		return plain(given)
	}
	mode, err := octal("mode", c.left["mode"])
	if err != nil {
		return "0755" // as of a file without a mode
	}
	folder := []byte(plain(mode))
	for i := len(folder) - 3; i < len(folder); i++ {
		if folder[i] != '0' {
			folder[i] |= 1
		}
	}
	return string(folder)
}

// managed reads the content of a file.
func managed(c *conversion) error {
	if c.twins() {
		return nil
	}
	keep := c.takeBool("replace", true)
	if !keep {
		c.leaveAlone()
	}
	c.hideDiff()
	c.checked()
	follows := c.takeBool("follow_symlinks", true)
	if err := c.readContent(); err != nil {
		return err
	}
	if c.left["makedirs"] == true {
		if made := c.foldersAbove(); made != "0755" {
			c.note("makedirs makes the folders above a file with 0755: Salt gives them " + made)
		}
	}
	if follows && c.args["replace"] != false {
		c.note(replacesLink + ", unless follow_symlinks is false")
	}
	return nil
}

// replacesLink is a note on each state that writes a file.
const replacesLink = forAll + "a link at the path is replaced by the file: Salt writes to what it leads to"

// readContent reads what is in a file.
func (c *conversion) readContent() error {
	value, ok := c.take("source")
	if !ok {
		return c.contents()
	}
	if isRemote, err := c.fromWeb(value); err != nil || isRemote {
		return err
	}
	f, err := c.source.find(value)
	if err != nil {
		return err
	}
	if c.left["mode"] == keepMode {
		c.left["mode"] = f.mode
	}
	return c.fromSource(f.name, f.text)
}

// keepMode has Salt give a file the mode that it has on the master.
const keepMode = "keep"

// modeOf returns the octal digits of a mode, with the bits for setuid, setgid and sticky.
func modeOf(info fs.FileInfo) string {
	mode := info.Mode()
	digits := mode.Perm()
	for bit, here := range map[fs.FileMode]fs.FileMode{
		fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000,
	} {
		if mode&bit != 0 {
			digits |= here
		}
	}
	return fmt.Sprintf("%04o", uint32(digits))
}

// leaveAlone has a file that is there left as it is.
func (c *conversion) leaveAlone() {
	c.args["replace"] = false
	for _, name := range []string{"user", "group", "mode"} {
		if c.left[name] != nil {
			c.note("a file that is there keeps its owner and mode: Salt sets them, though it leaves the content")
		}
	}
}

// hideDiff reads whether people see what changed in the content.
func (c *conversion) hideDiff() {
	for _, name := range []string{"show_changes", "show_diff"} {
		if !c.takeBool(name, true) {
			c.args["diff"] = false
		}
	}
}

// noteDiff reads the same where a state cannot hide what changed.
func (c *conversion) noteDiff() {
	if !c.takeBool("show_changes", true) && c.err == nil {
		c.note("argument show_changes: False is left out: people see what changes in the file")
	}
}

// checked reads the program that checks the new content. Salt gives the path of the new file to a shell after it.
func (c *conversion) checked() {
	program := c.takeText("check_cmd")
	if program == "" {
		return
	}
	if strings.ContainsAny(program, shellReads+"'\"\\=") {
		c.args["check"] = []string{"/bin/sh", "-c", program + ` "$1"`, "sh", "{}"}
		return
	}
	c.args["check"] = append(strings.Fields(program), "{}")
}

// pythonLines matches what ends a line for Python.
var pythonLines = regexp.MustCompile("\r\n|[\n\r\v\f\x1c-\x1e\u0085\u2028\u2029]")

// contents reads the content of a file from the declaration or from the pillar. Salt writes the lines of each text of a
// list, so that an empty text is no line.
func (c *conversion) contents() error {
	if key := c.takeText("contents_pillar"); key != "" {
		delimiter := c.takeText("contents_delimiter")
		value, found := lookup(c.host.Pillar, strings.Split(key, cmp.Or(delimiter, ":")))
		if !found {
			return refuse("argument contents_pillar: a value that is not in the pillar; give --pillar")
		}
		c.left["contents"] = value
	}
	value, ok := c.take("contents")
	if !ok {
		c.args["content"] = ""
		c.leaveAlone()
		return nil
	}
	parts, ok := texts(value)
	if !ok || len(parts) == 0 {
		return refuse("argument contents: a value of another form")
	}

	var content strings.Builder
	for _, part := range parts {
		lines := pythonLines.Split(part, -1)
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		for _, line := range lines {
			content.WriteString(line + "\n")
		}
	}
	ends := c.takeBool("contents_newline", true)
	text := content.String()
	if !ends {
		text = strings.TrimRight(text, "\n")
	}
	if c.isTemplate(text, "") {
		rendered, isKnown := c.source.rendered(c.host.ID, c.Name)
		if !isKnown {
			return refuse("argument contents: a template" + pushFirst)
		}
		text = string(rendered)
		c.note(asRendered)
	}
	if text == "" && c.left["allow_empty"] == false {
		return refuse("argument allow_empty: false, and a content that is empty, with which Salt fails")
	}
	c.args["content"] = text
	return nil
}

// isTemplate reports whether Salt renders a text of the declaration. otherwise is what renders it without the argument
// template: jinja, or nothing. A text without tags of Jinja is as Jinja renders it; other renderers have other tags.
func (c *conversion) isTemplate(text, otherwise string) bool {
	switch number(c.left["template"], otherwise) {
	case "", "False":
		return false
	case "jinja":
		return mayBeTemplate(text)
	}
	return true
}

// What a note says of a rendered text, and a refusal of one that is missing.
const (
	asRendered = "a template became the text that Salt rendered"
	pushFirst  = "; run salt '*' cp.push PATH and give --pushed"
)

// twins looks for a second declaration of the same file, where one has content and the other has none. The one without
// content is left out. The other gets its owner and mode where it has none. twins reports whether this is the one
// without content.
func (c *conversion) twins() bool {
	for _, d := range c.host.Low {
		if d.Function() != "file.managed" || d.Name != c.Name || hasContent(d.args) == hasContent(c.Declaration.args) {
			continue
		}
		if hasContent(d.args) {
			c.isDone = true
			c.note("another state has the file with its content; this one does nothing")
			c.left = map[string]any{}
			return true
		}
		for _, name := range []string{"user", "group", "mode", "makedirs"} {
			if _, ok := c.left[name]; !ok && d.args[name] != nil {
				c.left[name] = d.args[name]
			}
		}
	}
	return false
}

// hasContent reports whether a declaration of a file says what is in it.
func hasContent(args map[string]any) bool {
	return args["source"] != nil || args["contents"] != nil || args["contents_pillar"] != nil
}

// fromSource copies the source of a file, or what Salt rendered from it.
func (c *conversion) fromSource(name string, text []byte) error {
	if !c.isTemplate(string(text), "") {
		c.setSource(saltFiles, name, text)
		return nil
	}
	rendered, isKnown := c.source.rendered(c.host.ID, c.Name)
	problem := c.fromTemplate(name, string(text), rendered, isKnown)
	switch refused, isRefused := errors.AsType[*refusal](problem); {
	case problem == nil:
		return nil
	case !isRefused:
		return problem
	case !isKnown:
		return refuse("%s", refused.reason+pushFirst)
	}
	c.setSource(c.source.texts, name, rendered)
	c.note(asRendered)
	return nil
}

// mayBeTemplate reports whether Jinja would change a text.
func mayBeTemplate(text string) bool {
	return strings.Contains(text, "{{") || strings.Contains(text, "{%") || strings.Contains(text, "{#")
}

// setSource copies a text into a folder of the repo. If it has a secret it is content, which the secrets can have.
func (c *conversion) setSource(folder, name string, text []byte) {
	to, ok := c.add(folder, name, text)
	if !ok {
		c.args["content"] = string(text)
		return
	}
	c.args["source"] = to
}

// fromTemplate copies a template of Jinja as one here, which must give the rendered text if it is known.
func (c *conversion) fromTemplate(name, jinja string, rendered []byte, isKnown bool) error {
	if c.left["template"] != "jinja" {
		return refuse("a template that is not Jinja")
	}
	converted, vars, err := c.template(jinja)
	if err != nil {
		return err
	}
	text, ok := render(converted, vars)
	if !ok || isKnown && text != string(rendered) {
		return refuse("a template that gives another text here")
	}
	c.setSource(c.source.texts, name, []byte(converted))
	c.args["template"] = true
	if len(vars) > 0 {
		c.args["vars"] = vars
	}
	return nil
}

// render returns the text of a template here.
func render(template string, vars map[string]any) (text string, ok bool) {
	t, err := mustache.Parse("template", template)
	if err != nil {
		return "", false
	}
	out, _, err := t.Render(map[string]any{"vars": vars})
	return string(out), err == nil
}

// lookup returns a value below maps.
func lookup(value any, keys []string) (any, bool) {
	for _, key := range keys {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = fields[key]; !ok {
			return nil, false
		}
	}
	return value, !slices.Contains(keys, "")
}
