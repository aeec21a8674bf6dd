package main

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// guidePages are the pages of the guide, one file per topic.
//
//go:embed guide/*.md
var guidePages embed.FS

// guideTopics returns the names of the pages in the order in which a newcomer reads them.
func guideTopics() []string {
	return []string{"repo", "review", "schedules", "states", "jobs", "peels", "alerts", "running", "api"}
}

func (a *app) guideCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "guide [TOPIC]",
		Short: "Print a page of the guide",
		Long:  "guide prints a page of the guide as Markdown. Without a topic it lists them.",
		Args:  atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listGuide()
			}
			if !slices.Contains(guideTopics(), args[0]) {
				return usageError("the guide has no page %q; the pages are %s", args[0], strings.Join(guideTopics(), ", "))
			}
			text, err := guidePages.ReadFile(path.Join("guide", args[0]+".md"))
			if err != nil {
				return err
			}
			_, err = a.out.Write(text)
			return err
		},
	}
}

// listGuide prints each topic with the title of its page.
func (a *app) listGuide() error {
	for _, topic := range guideTopics() {
		text, err := guidePages.ReadFile(path.Join("guide", topic+".md"))
		if err != nil {
			return err
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		if _, err := fmt.Fprintf(a.out, "%-10s %s\n", topic, title); err != nil {
			return err
		}
	}
	return nil
}
