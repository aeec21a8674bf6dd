package settings

import "github.com/seed-c01c3da5/zester/settings/target"

// Bucket is the KV bucket that holds the newest document of every peel under the wire form of its ID.
const Bucket = "settings"

const (
	bucketStream = "KV_" + Bucket
	keyPrefix    = "$KV." + Bucket + "."
)

// keySubject is the subject under which the bucket's stream stores a peel's document.
func keySubject(peel target.PeelID) string { return keyPrefix + peel.Wire() }

// liveSubject is where the stream re-publishes what it stored for a peel.
func liveSubject(peel target.PeelID) string { return "zester.settings." + peel.Wire() }

// directGet is the request that any server which holds the bucket answers with the newest document of a peel.
func directGet(peel target.PeelID) string {
	return "$JS.API.DIRECT.GET." + bucketStream + "." + keySubject(peel)
}
