module github.com/seed-c01c3da5/zester/ci/pages

go 1.26.0

require github.com/yuin/goldmark v1.8.7
