module github.com/seed-c01c3da5/zester/ci/deb

go 1.26.0

require (
	github.com/therootcompany/xz v1.0.1
	github.com/ulikunitz/xz v0.6.0-alpha.3
)

require (
	github.com/ulikunitz/lz v0.3.1 // indirect
	golang.org/x/exp v0.0.0-20230420155640-133eef4313cb // indirect
)
