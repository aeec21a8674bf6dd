// Package policy has the rules of zester.yaml by which a change goes out: waves, freezes and limits, and the alert
// rules. Call [ParsePolicy] with the file; [PublishAlerts] writes the alert rules to the bus, [LoadAlerts] reads them.
package policy
