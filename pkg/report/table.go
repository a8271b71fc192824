package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes rows in aligned columns below upper-case headings, as kubectl does. Cells are
// escaped; empty ones show as "-".
func Table(w io.Writer, headings []string, rows [][]string) error {
	tab := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)
	if err := tableRow(tab, headings); err != nil {
		return err
	}
	for _, row := range rows {
		if err := tableRow(tab, row); err != nil {
			return err
		}
	}
	if err := tab.Flush(); err != nil {
		return fmt.Errorf("writing table: %w", err)
	}
	return nil
}

func tableRow(w io.Writer, cells []string) error {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		if shown[i] = Escape(cell); shown[i] == "" {
			shown[i] = "-"
		}
	}
	if _, err := fmt.Fprintln(w, strings.Join(shown, "\t")); err != nil {
		return fmt.Errorf("writing table: %w", err)
	}
	return nil
}
