package console

import "slices"

// Requests returns the pattern of each page and order with the noun and the verb of the request that it needs.
func Requests() (all [][3]string) {
	for _, r := range slices.Concat(fleetPages, jobPages, repeatPages, systemPages, dataPages) {
		all = append(all, [3]string{r.path, r.noun, r.verb})
	}
	for _, o := range allOrders() {
		all = append(all, [3]string{o.path, o.noun, o.verb})
	}
	return all
}
