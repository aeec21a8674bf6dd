package peel

// Wipe is the function peel.wipe.
var Wipe = (*Peel).wipe
