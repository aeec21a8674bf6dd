package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func (a *app) guideCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "guide [TOPIC [FIELD]]",
		Short: "Print a page of the guide",
		Long: "guide prints a page of the guide as Markdown. Without a topic it lists them.\n" +
			"The page entry describes each field of a schedule entry; FIELD prints one.",
		Args: atMost(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listGuide()
			}
			if !slices.Contains(guide.Topics(), args[0]) {
				return usageError("the guide has no page %q; the pages are %s", args[0],
					strings.Join(guide.Topics(), ", "))
			}
			if len(args) == 2 {
				return a.showField(args[0], args[1])
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

// entryTopic is the page with a section for each field.
const entryTopic = "entry"

// fieldNames returns the names of the fields of an entry.
func fieldNames() []string {
	var names []string
	for _, f := range schedule.Reference() {
		names = append(names, f.Name)
	}
	return names
}

// showField prints what the guide says of one field of an entry, and of the fields in it.
func (a *app) showField(topic, name string) error {
	if topic != entryTopic {
		return usageError("the page %s has no fields: zester guide %s", topic, topic)
	}
	found := false
	for _, f := range schedule.Reference() {
		if f.Name != name && f.Alias != name && !strings.HasPrefix(f.Name, name+".") {
			continue
		}
		if found {
			fmt.Fprintln(a.out)
		}
		found = true
		if _, err := fmt.Fprint(a.out, f.Markdown()); err != nil {
			return err
		}
	}
	if !found {
		return usageError("an entry has no field %q%s", name, strictyaml.SuggestKey(name, fieldNames()))
	}
	return nil
}
