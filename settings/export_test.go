package settings

// For tests, which publish in place of the server.
var (
	KeySubject  = keySubject
	LiveSubject = liveSubject
	DirectGet   = directGet
)
