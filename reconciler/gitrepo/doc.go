// Package gitrepo follows one branch of one Git repository and returns its
// revisions as immutable, checked file trees.
//
// Begin with [Open]. [Repo.Resolve] asks which commit the branch is at: one
// small request, cheap enough for every few seconds. [Repo.Fetch] makes that
// commit and its history readable. [Repo.Snapshot] opens a commit as a file
// system; [Repo.Parents], [Repo.Blob] and the other methods read the history.
//
// # Guarantees
//
// One goroutine calls Resolve and Fetch. Any number of others may call the
// reading methods, and read a [Snapshot], at the same time: also while a Fetch
// adds commits or replaces a damaged store. Resolve and Fetch end promptly when
// their context ends, and leave nothing running.
//
// A read is strict: every object is hashed and compared with its name, and a
// read that fails is an error. A tree is never silently smaller than its commit
// says. Damage that a read finds makes the next Fetch replace the store by a new
// clone, which is logged; the damaged store stays beside it.
//
// Nothing is checked out, no link is followed, no hook, filter or submodule is
// run; only [Checkout.Working] runs the program git, and its doc says which
// programs git may run. A revision with a file name that could leave its
// directory is refused. The number of entries, the depth of a tree, the size of
// a file, the length of a remote's error message and the time of a request are
// bounded. A transfer with an object of more than 256 MiB, anywhere in the
// history, is refused before it is unpacked into memory. Errors show no
// credentials. A credential is sent to the server that the URL names, and to no
// other; a redirect from https to http is refused.
//
// With Options.Verify, [Repo.Verify] checks the signatures of a head and of the
// commits before it since an accepted one. The keys come from files of the
// operator, never from the repository.
//
// # Where commits are kept
//
// Over http, https and ssh, Fetch adds one pack to a bare store in Options.Dir,
// with the full history of the branch. When there are 64 packs the smallest are
// joined locally, so nothing is downloaded twice. Commits that a force push
// leaves behind stay in the store.
//
// A local path or a file:// URL is read in place, without the git binary:
// nothing is copied, and Options.Dir stays empty.
//
// # Known gaps
//
// When a local repository drops a commit (git gc after a force push), open
// Snapshots of that commit can no longer be read. Refused are repositories with
// SHA-256 names, with the reftable format, shallow ones, and local ones that
// borrow objects of another repository (objects/info/alternates). The unpacked
// size of a local repository's packs is not bounded: Git checked them when they
// were pushed.
package gitrepo
