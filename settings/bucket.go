package settings

import "github.com/seed-c01c3da5/zester/settings/target"

// Bucket is the KV bucket with the newest document of every peel. A key is [target.PeelID.Wire] of the peel.
const Bucket = "settings"

const (
	bucketStream = "KV_" + Bucket
	keyPrefix    = "$KV." + Bucket + "."
)

// keySubject returns the subject of a peel's document in the bucket's stream.
func keySubject(peel target.PeelID) string { return keyPrefix + peel.Wire() }

// liveSubject returns the subject on which the stream re-publishes the documents of a peel.
func liveSubject(peel target.PeelID) string { return "zester.settings." + peel.Wire() }

// directGet returns the subject of the request for the newest document of a peel; any server with the bucket answers.
func directGet(peel target.PeelID) string {
	return "$JS.API.DIRECT.GET." + bucketStream + "." + keySubject(peel)
}
