package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
)

const (
	minPart = 6  // characters of a piece of base64 that is masked
	line    = 76 // characters of a line that base64 writes
)

var doubleQuoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")

// forms returns the other forms of a secret. written is the secret with the space around it. Some may be equal.
func forms(plain, written string) []string {
	all := []string{
		quoted(plain, true), quoted(plain, false),
		strings.ReplaceAll(plain, "'", `'\''`), doubleQuoted.Replace(plain),
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for _, text := range []string{plain, written, plain + "\n"} {
			whole := encoding.EncodeToString([]byte(text))
			all = append(all, whole)
			for len(whole) > line {
				all = append(all, whole[:line])
				whole = whole[line:]
				if len(whole) >= minPart {
					all = append(all, whole)
				}
			}
		}
		for offset := range 3 {
			if part := inside(encoding, plain, offset); len(part) >= minPart {
				all = append(all, part)
			}
		}
	}
	return all
}

// quoted returns a secret as it stands between the quotes of a JSON text.
func quoted(plain string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(plain) // a string has a JSON form
	return strings.TrimSuffix(b.String(), "\"\n")[1:]
}

// inside returns the characters that a secret has in the base64 of a longer text if offset bytes, modulo 3, are before
// it. Those that also depend on its neighbours are left out.
func inside(encoding *base64.Encoding, plain string, offset int) string {
	first := (offset*8 + 5) / 6
	last := (offset + len(plain)) * 8 / 6
	whole := encoding.EncodeToString([]byte(strings.Repeat("x", offset) + plain))
	return whole[min(first, len(whole)):max(min(last, len(whole)), min(first, len(whole)))]
}

// isCommon reports whether a short text is a word that occurs in many texts by chance.
func isCommon(text string) bool {
	for word := range strings.FieldsSeq(common) {
		if word == strings.ToLower(text) {
			return true
		}
	}
	return false
}

// common are words of 3 to 5 bytes in results of functions, names of files and services, and defaults of
// configurations.
const common = `
about abort absent access active actor add added addr admin after age agent agree alert alias alive all allow alpha
also amd64 and ansi any apache api app apply apps apt arch args arm64 array asc ascii asia async auth auto avg away
back base bash basic batch bench beta bin bind bits black block blog blue body bool boot both box brief build built
bus but byte bytes cache call can cause cert chain chars check chmod chown class clean clear cli click clock clone
close cloud code color come conf copy core count cpu create cron css csv ctl curl cut cycle daily data date dates day
days dead debug def delay demo deny dest dev diff dig dir dirs disk dns doc docs does done down drift drop dummy dump
early echo edit else email empty enable end ended entry enum env equal err error etc eth0 euro event every exec exit
expr extra fact facts fail false fast few field file files final find first five fixed flag flags float flush font for
force fork form four free fresh from ftp full func get gid git give given good got gray grep green group guest hash
have head help here high home hook host hosts hour hours how html http https icon idle image img index info init inner
input int intel into ipv4 ipv6 item items its job jobs join json just keep key keys kind label last late later lease
left len less level lib light like limit line lines link linux list live load local lock log login logs long loop lost
low mail main make many map mark mask match max may media menu merge meta min minor mode model month more most mount
move much mysql name names nano need never new next nginx nice nil nine no_op node none noop not note now null num off
offer old once one only open opt order other our out outer over own owner page pages panel parse part pass past patch
path paths peel peels phase php pid ping pipe place plain plan play port ports post power press print prod proxy pub
pull push query queue quick quiet quit quota rate raw read ready red redis ref regex reply repo reset rest retry right
role roles root route rsa rsync rule rules run runs safe same save sbin scan scope score sed self send sent serve set
seven shell short show shown shut side sign since site six size skip sleep slow small smtp some sort spec split ssh
ssl stage start stat state stats still stop store style sub sudo sum sync sys table tag tags tail take tar task team
temp term test tests text than that the their them then there these they this three time timer times tls tmp today
token top total touch track tree true try two type types udp uid undo union unit units until up upper url use used
user users usr utc utf-8 utf8 value var vars very via view vim vmlinuz void wait want warn was watch wave way web week
well what when where which while white who why will with word words work world would write xml year years yes you your
zero zip zone zones
`
