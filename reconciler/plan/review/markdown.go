package review

import (
	"fmt"
	"strings"
)

const (
	// Marker begins the Markdown of every review, so that its comment can be found and edited later.
	Marker = "<!-- zester plan -->"

	// MaxMarkdown is how many bytes the Markdown has at most. Forges refuse comments of more than 65,536 characters.
	MaxMarkdown = 60_000

	markdownEnd   = 400    // bytes kept for the number of omitted groups
	markdownFacts = 15_000 // bytes before the errors
	markdownBlock = 20_000
	markdownLines = 20_000 // bytes of errors and of warnings each
)

// Markdown returns the review as a comment on a pull request, at most [MaxMarkdown] bytes. If it is longer, the groups
// of changes with the fewest peels are omitted, and their number is shown.
func (r *Review) Markdown() string {
	var b strings.Builder
	of := ""
	if r.Path != "" {
		of = " of " + escape(r.Path)
	}
	fmt.Fprintf(&b, "%s\n### zester plan%s: %s\n\n", Marker, of, r.Radius())
	fmt.Fprintf(&b, "%s → %s\n\n", r.Base.markdown(), r.Head.markdown())
	if r.Blocked != "" {
		fmt.Fprintf(&b, "> **Blocked:** %s\n> %s\n\n", escape(r.Blocked), escape(r.Release))
	}
	facts := r.Facts()
	for i, fact := range facts {
		if fact = escape(fact); b.Len()+len(fact) > markdownFacts {
			fmt.Fprintf(&b, "- %d more lines are left out; `zester plan` shows them\n", len(facts)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", fact)
	}
	fold(&b, "error", r.Errors)
	fold(&b, "warning", r.Warnings[:r.NewWarnings])
	blocks := r.Blocks()
	for i, block := range blocks {
		one := block.markdown()
		if b.Len()+len(one) > MaxMarkdown-markdownEnd {
			fmt.Fprintf(&b, "\n%d more groups of changes are left out; `zester plan` shows all of them.\n",
				len(blocks)-i)
			break
		}
		b.WriteString(one)
	}
	return b.String()
}

func (r Revision) markdown() string {
	name := code(r.Name)
	switch short := r.Commit[:min(len(r.Commit), 8)]; {
	case short == "":
	case strings.HasPrefix(r.Commit, r.Name):
		name = code(short)
	default:
		name += " " + code(short)
	}
	if r.Subject != "" {
		name += " " + escape(cut(r.Subject, 100))
	}
	return name
}

// fold writes lines in a section that readers can collapse.
func fold(b *strings.Builder, what string, lines []string) {
	if len(lines) == 0 {
		return
	}
	if len(lines) > 1 {
		what += "s"
	}
	fmt.Fprintf(b, "\n<details open><summary>%d %s</summary>\n\n", len(lines), what)
	fence(b, "", lines, markdownLines)
	b.WriteString("\n</details>\n")
}

func (b Block) markdown() string {
	var out strings.Builder
	var lines []string
	entries, states := map[Action]int{}, map[Action]int{}
	for _, c := range b.Changes {
		entries[c.Action]++
	}
	for _, s := range b.States {
		states[s.Action]++
	}
	for _, l := range b.Lines() {
		mark := l.Mark
		if mark == Tilde {
			mark = '!' // forges colour it
		}
		lines = append(lines, string(mark)+" "+l.Text)
	}
	fmt.Fprintf(&out, "\n<details><summary>%s: %d entries added, %d changed, %d removed;", escape(Names(b.Peels)),
		entries[Add], entries[Modify], entries[Remove])
	if len(b.States) > 0 {
		fmt.Fprintf(&out, " states: %d added, %d changed, %d removed;", states[Add], states[Modify], states[Remove])
	}
	fmt.Fprintf(&out, " %d settings</summary>\n\n", len(b.Settings))
	fence(&out, "diff", lines, markdownBlock)
	out.WriteString("\n</details>\n")
	return out.String()
}

// fence writes lines in a code block, at most limit bytes of them.
func fence(b *strings.Builder, language string, lines []string, limit int) {
	ticks := "```"
	for strings.Contains(strings.Join(lines, "\n"), ticks) {
		ticks += "`"
	}
	fmt.Fprintf(b, "%s%s\n", ticks, language)
	for i, line := range lines {
		if line = oneLine(line); limit < len(line) {
			fmt.Fprintf(b, "… %d lines more\n", len(lines)-i)
			break
		}
		limit -= len(line) + 1
		b.WriteString(line + "\n")
	}
	b.WriteString(ticks + "\n")
}

// code returns text as inline code.
func code(s string) string { return "`" + strings.ReplaceAll(oneLine(cut(s, 100)), "`", "'") + "`" }

var markdownSigns = strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`, "`",
	"\\`",
	"[", `\[`, "]", `\]`, "|", `\|`, "@", "@\u200b", "#", "#\u200b", "~", `\~`, "!", `\!`)

// escape escapes Markdown, HTML, mentions of people and references to issues in a text.
func escape(s string) string { return markdownSigns.Replace(oneLine(s)) }

func cut(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return s
}
