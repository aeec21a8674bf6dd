package console

// dataPages are the pages about what should have run: Now, Timeline, entries, States, Alerts and Approvals.
var dataPages []route
