// Command pages turns the pages of the guide into HTML: pages FROM TO TOPIC… reads FROM/TOPIC.md, and writes
// TO/TOPIC.html and TO/index.html, a list of the topics in their order. The pages need no script, no style and no
// network.
//
// A link to another page, a command `zester guide TOPIC` and a cell of a table with a topic alone lead to that page. A
// link to a page or a heading that does not exist is an error, and so is HTML within a page.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: pages FROM TO TOPIC…")
		os.Exit(64)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

// A page is a topic of the guide.
type page struct {
	topic, title string
	source       []byte
	root         ast.Node
	anchors      map[string]bool // of its headings
}

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

// write reads the pages of all topics and writes them, or writes nothing if one of them is wrong.
func write(from, to string, topics []string) error {
	var pages []*page
	byTopic := map[string]*page{}
	for _, topic := range topics {
		source, err := os.ReadFile(filepath.Join(from, topic+".md"))
		if err != nil {
			return err
		}
		p := parse(topic, source)
		pages = append(pages, p)
		byTopic[topic] = p
	}

	var wrong []error
	for _, p := range pages {
		wrong = append(wrong, p.check(byTopic))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}

	for i, p := range pages {
		out, err := render(pages, i)
		if err != nil {
			return fmt.Errorf("%s.md: %w", p.topic, err)
		}
		if err := os.WriteFile(filepath.Join(to, p.topic+".html"), out, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(to, "index.html"), contents(pages), 0o644)
}

func parse(topic string, source []byte) *page {
	p := &page{topic: topic, title: topic, source: source, anchors: map[string]bool{}}
	p.root = markdown.Parser().Parse(text.NewReader(source))
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		heading, ok := n.(*ast.Heading)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		if heading.Level == 1 && p.title == topic {
			p.title = string(plain(heading, source))
		}
		if id, ok := heading.AttributeString("id"); ok {
			p.anchors[string(id.([]byte))] = true
		}
		return ast.WalkContinue, nil
	})
	return p
}

// plain returns the text of a node.
func plain(n ast.Node, source []byte) (all []byte) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			all = append(all, t.Segment.Value(source)...)
			continue
		}
		all = append(all, plain(c, source)...)
	}
	return all
}

// check returns what is wrong in a page, and makes its links lead to pages of the site.
func (p *page) check(pages map[string]*page) error {
	var wrong []error
	fail := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s.md: %w", p.topic, fmt.Errorf(format, args...)))
	}
	references := map[ast.Node]string{} // topics by the nodes that become links to them
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.RawHTML, *ast.HTMLBlock:
			fail("it has HTML, which is not shown: put it in a code span")
		case *ast.Link:
			to, err := p.follow(string(n.Destination), pages)
			if err != nil {
				fail("%w", err)
			}
			n.Destination = []byte(to)
		case *ast.CodeSpan:
			topic, found := strings.CutPrefix(string(plain(n, p.source)), "zester guide ")
			if found && strings.Trim(topic, "abcdefghijklmnopqrstuvwxyz") == "" {
				references[n] = topic
				if pages[topic] == nil {
					fail("it names the page %s, which does not exist", topic)
				}
			}
		case *table.TableCell:
			if topic := string(plain(n, p.source)); n.ChildCount() == 1 && pages[topic] != nil {
				references[n.FirstChild()] = topic
			}
		}
		return ast.WalkContinue, nil
	})
	for n, topic := range references {
		link := ast.NewLink()
		link.Destination = []byte(topic + ".html")
		n.Parent().ReplaceChild(n.Parent(), n, link)
		link.AppendChild(link, n)
	}
	return errors.Join(wrong...)
}

// follow returns where a link of the guide leads to on the site.
func (p *page) follow(link string, pages map[string]*page) (string, error) {
	if strings.HasPrefix(link, "https://") {
		return link, nil
	}
	name, anchor, _ := strings.Cut(link, "#")
	to := p
	if name != "" {
		topic, isPage := strings.CutSuffix(name, ".md")
		if to = pages[topic]; !isPage || to == nil {
			return "", fmt.Errorf("the link to %s leads to no page of the guide", link)
		}
		name = topic + ".html"
	}
	if anchor == "" {
		return name, nil
	}
	if !to.anchors[anchor] {
		return "", fmt.Errorf("the link to %s leads to no heading of %s.md", link, to.topic)
	}
	return name + "#" + anchor, nil
}

const frame = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
</head>
<body>
%s</body>
</html>
`

// link returns a link to a page of the site.
func (p *page) link() string {
	return fmt.Sprintf("<a href=\"%s.html\">%s</a>", p.topic, html.EscapeString(p.title))
}

// render returns the page at i as HTML, with links to its neighbours and to the list.
func render(pages []*page, i int) ([]byte, error) {
	p := pages[i]
	var body bytes.Buffer
	body.WriteString("<nav><a href=\"index.html\">Contents</a>")
	if i > 0 {
		body.WriteString(" · Before: " + pages[i-1].link())
	}
	if i < len(pages)-1 {
		body.WriteString(" · Next: " + pages[i+1].link())
	}
	body.WriteString("</nav>\n<main>\n")
	if err := markdown.Renderer().Render(&body, p.source, p.root); err != nil {
		return nil, err
	}
	body.WriteString("</main>\n")
	return fmt.Appendf(nil, frame, html.EscapeString(p.title), &body), nil
}

// contents returns the list of the pages.
func contents(pages []*page) []byte {
	var list strings.Builder
	list.WriteString("<main>\n<h1>zester</h1>\n<ol>\n")
	for _, p := range pages {
		list.WriteString("<li>" + p.link() + "</li>\n")
	}
	list.WriteString("</ol>\n</main>\n")
	return fmt.Appendf(nil, frame, "zester", list.String())
}
