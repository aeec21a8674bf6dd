// Package simulate does in memory what the schedules of a fleet will do. A [Host] is one peel.
package simulate
