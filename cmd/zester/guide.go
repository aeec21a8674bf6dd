package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
)

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
			if !slices.Contains(guide.Topics(), args[0]) {
				return usageError("the guide has no page %q; the pages are %s", args[0], strings.Join(guide.Topics(), ", "))
			}
			text, err := guide.Pages.ReadFile(args[0] + ".md")
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
	for _, topic := range guide.Topics() {
		text, err := guide.Pages.ReadFile(topic + ".md")
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
