// Package gitrepo follows one branch of one Git repository and hands out its
// revisions as immutable, checked file trees.
//
// A [Repo] is used in three steps. [Repo.Resolve] asks where the branch is:
// one small request that a caller may make every few seconds. [Repo.Fetch]
// brings that commit, with its whole history, into a bare store on disk.
// [Repo.Snapshot] opens a commit of the store as a file system. Between two
// steps nothing runs: the package starts no goroutine of its own except for
// [Repo.Watch].
//
// # Where a branch comes from
//
// Over http and https the branch is resolved with protocol version 2 and a
// ref-prefix, so that a repository with thousands of pull-request refs costs
// one request and one line; servers that know only version 0 are asked for
// their whole list. ssh always lists. A local path or a file:// URL is opened
// directly, without the git binary, and its objects are copied into the store
// like those of any other remote: a revision that was served once survives a
// force push, a garbage collection or the removal of the repository that it
// came from.
//
// # The store
//
// The store is bare, holds the full history of one branch and is never
// shallow. It lives in a directory named by the hash of the URL. Objects come
// in packs, each of which becomes visible only when it is complete, and a
// commit is written after everything that it needs: a commit that is present
// is complete. A tip that a force push leaves behind is kept (the newest 16 of
// them), so the last good revision stays readable.
//
// Packs are never merged. When there are 64 of them, or when the store turns
// out to be shallow or damaged, a new one is cloned beside it and renamed in;
// [Result.Rebuilt] says so. Whatever is read is read strictly: every object is
// hashed and compared with its name, and a read that fails marks the store as
// damaged, so that the next Fetch replaces it. A tree is never silently
// smaller than the commit says.
//
// # Ownership
//
// A Repo belongs to one goroutine. A [Snapshot] and its [Tree] are immutable
// and may be read from any goroutine, also while the owner fetches, and stay
// readable when the store is replaced.
//
// # What a repository can do to its reader
//
// Nothing is checked out, no link is followed, no hook, filter or submodule is
// looked at. Names that could leave a directory refuse the revision. The number
// of entries, the depth of a tree, the size of a file, the length of what a
// remote says in an error and the time that it may take are all bounded.
// Credentials of a URL or of a file never show up in an error, and those of
// a file are sent to the server that the URL names, encrypted, and to no other.
//
// # Signatures
//
// With Options.Verify a head can be asked for its signature, [Repo.Verify]. The
// keys come from the files of whoever runs this, never from the repository.
package gitrepo
