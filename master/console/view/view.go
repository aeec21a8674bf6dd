// Package view has what the pages of the console show: a struct for each page, and the function that makes it of a
// query and the replies of masters, which it asks for with an [api.Asker]. The struct is also the page as JSON.
//
// Lists have at most [Rows] rows. A page whose subject cannot be read is an error; what only adds to it is an
// [api.Extra], which says why it is missing.
package view

// Rows is how many rows a list has at most.
const Rows = 100
