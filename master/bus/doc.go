// Package bus has what services of masters need beyond nats.go: [Lead] lets one master lead a task, [NewHeartbeat]
// gives a run its name and says which runs live, [NewFollower] follows a stream with the newest message of each
// subject, and a [Service] receives requests, which [SendReply] answers.
package bus
